/** What the server writes into the page. */
export interface Config {
  /** `serve --dev`: the server hands out tokens to this page. */
  readonly dev: boolean;
  /** Whether the server answers introspection; the editor works without, but then completes nothing. */
  readonly introspection: boolean;
}

export function readConfig(): Config {
  const element = document.getElementById("headcount-config");
  const written = JSON.parse(element?.textContent || "{}") as Partial<Config>;
  return { dev: written.dev ?? false, introspection: written.introspection ?? written.dev ?? false };
}
