import type { Fetcher, FetcherParams, FetcherReturnType } from "@graphiql/toolkit";
import { getOperationAST, type DocumentNode, type ExecutionResult } from "graphql";
import { createClient } from "graphql-ws";

import type { Authorization } from "./tokens";

type Headers = Record<string, unknown>;
/** Its errors come as JSON; GraphiQL's type says error objects, and its code only prints them. */
type Result = ExecutionResult<Record<string, unknown>, Record<string, unknown>>;

/** Queries and mutations by POST, subscriptions by a WebSocket (graphql-transport-ws), both at the page's own path. */
export function createFetcher(authorization: Authorization): Fetcher {
  return (operation, options) => {
    const headers = (options?.headers ?? {}) as Record<string, unknown>;
    return isSubscription(options?.documentAST, operation.operationName)
      ? subscribe(operation, headers, authorization)
      : post(operation, headers, authorization);
  };
}

function isSubscription(document: DocumentNode | undefined, name: string | null | undefined): boolean {
  return document !== undefined && getOperationAST(document, name)?.operation === "subscription";
}

async function post(operation: FetcherParams, headers: Headers, authorization: Authorization): Promise<Result> {
  const written = await current(headers, authorization);
  const response = await fetch(address(), {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/json", ...written },
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
    connectionParams: async () => {
      const written = await current(headers, authorization);
      const name = Object.keys(written).find((key) => key.toLowerCase() === "authorization");
      return name === undefined ? {} : { Authorization: written[name] };
    },
  });
  const results: AsyncIterable<unknown> = client.iterate({
    query: operation.query,
    variables: operation.variables as Record<string, unknown> | undefined,
    operationName: operation.operationName,
  });
  return results as AsyncIterable<Result>;
}

/** The headers of a tab with the token that is current when they are sent. */
async function current(headers: Headers, authorization: Authorization): Promise<Record<string, string>> {
  await authorization.settled();
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => {
      const text = String(value);
      return [name, name.toLowerCase() === "authorization" ? authorization.fresh(text) : text];
    }),
  );
}

function address(): string {
  return window.location.origin + window.location.pathname;
}
