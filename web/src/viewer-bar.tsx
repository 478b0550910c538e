import { useGraphiQL, useGraphiQLActions } from "@graphiql/react";
import { useEffect, useRef, useState, type FormEvent } from "react";

import type { Authorization } from "./tokens";

interface Props {
  readonly dev: boolean;
  readonly authorization: Authorization;
  readonly viewer: string;
  /** Whether the viewer's token is here. */
  readonly asking: boolean;
  /** What went wrong with the last token, if anything. */
  readonly trouble: string | null;
  /** Grows with every token that the page got by itself, so that the headers editor shows it. */
  readonly issued: number;
  readonly onViewer: (viewer: string) => void;
  readonly onReset: () => void;
}

/** The bar on top: who asks. Under `--dev` a user's number is enough; elsewhere a token is pasted. */
export function ViewerBar({ dev, authorization, viewer, asking, trouble, issued, onViewer, onReset }: Props) {
  const apply = useHeaders(authorization, issued);
  const [number, setNumber] = useState(viewer);
  const [token, setToken] = useState("");
  useEffect(() => setNumber(viewer), [viewer]);

  function submit(event: FormEvent) {
    event.preventDefault();
    if (dev) {
      onViewer(number.trim());
    } else if (token.trim() !== "") {
      authorization.set(token.trim().replace(/^Bearer\s+/i, ""));
      apply(true);
    }
  }

  return (
    <form className="viewer-bar" onSubmit={submit}>
      <strong>Headcount</strong>
      {dev ? (
        <label>
          Viewer
          <input
            name="viewer"
            inputMode="numeric"
            pattern="[1-9][0-9]{0,18}"
            title="A user's id; the demo world has 1 to 2000"
            required
            value={number}
            onChange={(event) => setNumber(event.target.value)}
          />
        </label>
      ) : (
        <label>
          Token
          <input
            name="token"
            type="password"
            autoComplete="off"
            placeholder="from `headcount token USER`"
            value={token}
            onChange={(event) => setToken(event.target.value)}
          />
        </label>
      )}
      <button type="submit">{dev ? "Ask as this user" : "Use in all tabs"}</button>
      <span className="viewer-note" role="status">
        {trouble ?? (dev ? note(viewer, asking) : "")}
      </span>
      <button type="button" className="quiet" onClick={onReset} title="Close all tabs and open the examples again">
        Examples
      </button>
    </form>
  );
}

function note(viewer: string, asking: boolean): string {
  return asking
    ? `Asking as user ${viewer}. The demo world has users 1 to 2000 and games 1 to 300.`
    : `Asking for a token of user ${viewer}…`;
}

/** Keep the Authorization header of the tab in view current; each tab gets it when it comes into view. */
function useHeaders(authorization: Authorization, issued: number): (overwrite: boolean) => void {
  const editor = useGraphiQL((state) => state.headerEditor);
  const tab = useGraphiQL((state) => state.tabs[state.activeTabIndex]?.id);
  const { updateActiveTabValues } = useGraphiQLActions();
  const seen = useRef(issued);

  function apply(overwrite: boolean) {
    if (editor === undefined) {
      return;
    }
    const before = editor.getValue();
    const after = authorization.writeInto(before, overwrite);
    if (after !== before) {
      editor.setValue(after);
      updateActiveTabValues({ headers: after });
    }
  }

  useEffect(() => {
    apply(issued !== seen.current);
    seen.current = issued;
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [editor, tab, issued]);
  return apply;
}
