import type { Fetcher, FetcherParams, FetcherReturnType } from "@graphiql/toolkit";
import { getOperationAST, type DocumentNode, type ExecutionResult } from "graphql";
import { createClient } from "graphql-ws";

import type { Authorization } from "./tokens";

type Headers = Record<string, string>;
/** Its errors come as JSON; GraphiQL's type says error objects, and its code only prints them. */
type Result = ExecutionResult<Record<string, unknown>, Record<string, unknown>>;

/** Queries and mutations by POST, subscriptions by a WebSocket (graphql-transport-ws), both at the page's own path. */
export function createFetcher(authorization: Authorization): Fetcher {
  return (operation, options) => {
    const headers: Headers = {};
    for (const [name, value] of Object.entries((options?.headers ?? {}) as Record<string, unknown>)) {
      const text = String(value);
      headers[name] = name.toLowerCase() === "authorization" ? authorization.fresh(text) : text;
    }
    return isSubscription(options?.documentAST, operation.operationName)
      ? subscribe(operation, headers, authorization)
      : post(operation, headers);
  };
}

function isSubscription(document: DocumentNode | undefined, name: string | null | undefined): boolean {
  return document !== undefined && getOperationAST(document, name)?.operation === "subscription";
}

async function post(operation: FetcherParams, headers: Headers): Promise<Result> {
  const response = await fetch(address(), {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/json", ...headers },
    body: JSON.stringify(operation),
  });
  const body = await response.text();
  try {
    // A refusal (401, 413, 429 …) has an `errors` body too, and that is what to show.
    return JSON.parse(body) as Result;
  } catch {
    throw new Error(`${response.status} ${response.statusText}: ${body.slice(0, 500)}`);
  }
}

function subscribe(operation: FetcherParams, headers: Headers, authorization: Authorization): FetcherReturnType {
  const client = createClient({
    url: address().replace(/^http/, "ws"),
    // Asked at every connection: one that comes back after the token has expired brings the fresh one.
    connectionParams: () => {
      const name = Object.keys(headers).find((key) => key.toLowerCase() === "authorization");
      const value = name === undefined ? undefined : headers[name];
      return value === undefined ? {} : { Authorization: authorization.fresh(value) };
    },
  });
  const results: AsyncIterable<unknown> = client.iterate({
    query: operation.query,
    variables: operation.variables as Record<string, unknown> | undefined,
    operationName: operation.operationName,
  });
  return results as AsyncIterable<Result>;
}

function address(): string {
  return window.location.origin + window.location.pathname;
}
