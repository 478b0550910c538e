import { createLocalStorage } from "@graphiql/toolkit";
import { GraphiQL } from "graphiql";
import { useCallback, useEffect, useMemo, useState } from "react";
import { createRoot } from "react-dom/client";
// The editor's workers, bundled: by default they would come from elsewhere.
import "graphiql/setup-workers/vite";
import "graphiql/style.css";

import { readConfig } from "./config";
import { examples } from "./examples";
import { createFetcher } from "./fetcher";
import "./page.css";
import { Authorization, fetchToken } from "./tokens";
import { ViewerBar } from "./viewer-bar";

/** A token is renewed this long before it expires. */
const RENEW_MS = 60_000;

const config = readConfig();
// Pages of other programs on this host and port keep their tabs under GraphiQL's own name.
const storage = createLocalStorage({ namespace: "headcount" });

function Page() {
  const authorization = useMemo(() => new Authorization(), []);
  const fetcher = useMemo(() => createFetcher(authorization), [authorization]);
  const [viewer, setViewer] = useState(() => new URLSearchParams(window.location.search).get("viewer") ?? "1");
  const [issued, setIssued] = useState(0);
  const [asking, setAsking] = useState<string | null>(null);
  const [trouble, setTrouble] = useState<string | null>(null);
  const ready = !config.dev || issued > 0 || trouble !== null;

  useEffect(() => {
    if (!config.dev) {
      return;
    }
    let timer: number | undefined;
    let left = false;
    async function renew() {
      let again = RENEW_MS;
      try {
        const coming = fetchToken(viewer).then((answer) => {
          if (!left) {
            authorization.set(answer.token);
          }
          return answer.expiresAt;
        });
        authorization.await(coming);
        const expiresAt = await coming;
        if (left) {
          return;
        }
        setTrouble(null);
        setAsking(viewer);
        setIssued((count) => count + 1);
        again = Math.max(5_000, expiresAt.getTime() - Date.now() - RENEW_MS);
      } catch (error) {
        if (left) {
          return;
        }
        setTrouble(error instanceof Error ? error.message : String(error));
      }
      timer = window.setTimeout(() => void renew(), Math.min(again, 2 ** 31 - 1));
    }
    void renew();
    return () => {
      left = true;
      window.clearTimeout(timer);
    };
  }, [authorization, viewer]);

  const choose = useCallback((chosen: string) => {
    const address = new URL(window.location.href);
    address.searchParams.set("viewer", chosen);
    window.history.replaceState(null, "", address);
    setViewer(chosen);
  }, []);

  const reset = useCallback(() => {
    for (const key of Object.keys(window.localStorage)) {
      if (key.startsWith("headcount:")) {
        window.localStorage.removeItem(key);
      }
    }
    window.location.reload();
  }, []);

  const tabs = useMemo(
    () => examples.map((example) => ({ ...example, headers: authorization.writeInto("", false) || null })),
    // The tabs are read once, when the editor opens.
    [ready, authorization],
  );

  // The first tab's variables have to be handed in apart, where no tabs are kept from an earlier visit.
  const variables = storage.getItem("graphiql:tabs") === null ? examples[0]?.variables : undefined;

  if (!ready) {
    return <p className="loading">Asking for a token…</p>;
  }
  return (
    <GraphiQL
      fetcher={fetcher}
      storage={storage}
      defaultTabs={tabs}
      defaultEditorToolsVisibility="variables"
      showPersistHeadersSettings={false}
      {...(variables === undefined ? {} : { initialVariables: variables })}
      {...(config.introspection ? {} : { schema: null })}
    >
      <GraphiQL.Logo>
        <span className="logo">GraphiQL</span>
      </GraphiQL.Logo>
      <ViewerBar
        dev={config.dev}
        authorization={authorization}
        viewer={viewer}
        asking={asking === viewer}
        trouble={trouble}
        issued={issued}
        onViewer={choose}
        onReset={reset}
      />
    </GraphiQL>
  );
}

const root = document.getElementById("page");
if (root === null) {
  throw new Error("the page has no element #page");
}
createRoot(root).render(<Page />);
