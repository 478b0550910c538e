/** Tokens of the viewer who is asking, kept fresh while the page is open. */

export interface Token {
  readonly token: string;
  /** When the server stops accepting it. */
  readonly expiresAt: Date;
}

/** Ask a server in `--dev` for a token of this user. */
export async function fetchToken(userId: string): Promise<Token> {
  const address = new URL("dev/token", document.baseURI);
  address.searchParams.set("user", userId);
  const response = await fetch(address, { cache: "no-store" });
  if (!response.ok) {
    throw new Error(`no token for user ${userId}: the server answered ${response.status}`);
  }
  const answer = (await response.json()) as { token: string; expiresAt: string | number };
  const expiresAt = typeof answer.expiresAt === "number" ? answer.expiresAt * 1000 : answer.expiresAt;
  return { token: answer.token, expiresAt: new Date(expiresAt) };
}

/** The value of the Authorization header, and every earlier value that this page put there. */
export class Authorization {
  private current: string | null = null;
  private readonly written = new Set<string>();
  private coming: Promise<unknown> = Promise.resolve();

  get value(): string | null {
    return this.current;
  }

  set(token: string): void {
    this.current = `Bearer ${token}`;
    this.written.add(this.current);
  }

  /** Let requests wait for this token: who presses play right after choosing a viewer asks as that viewer. */
  await(coming: Promise<unknown>): void {
    this.coming = coming.catch(() => undefined);
  }

  /** Resolves once the last token that was asked for is here, or could not be had. */
  async settled(): Promise<void> {
    await this.coming;
  }

  /** What to send for a header the page may have written long ago: the fresh one. */
  fresh(value: string): string {
    return this.current !== null && this.written.has(value) ? this.current : value;
  }

  /**
   * The text of a headers editor with the current value in it. A value that a person wrote is theirs and stays, unless
   * `overwrite`; so does text that is no JSON object.
   */
  writeInto(text: string, overwrite: boolean): string {
    if (this.current === null) {
      return text;
    }
    const headers = parseHeaders(text);
    if (headers === null) {
      return text;
    }
    const name = Object.keys(headers).find((key) => key.toLowerCase() === "authorization") ?? "Authorization";
    const before = headers[name];
    if (before === this.current || (typeof before === "string" && !this.written.has(before) && !overwrite)) {
      return text;
    }
    const rest = before === undefined && text.trim() === "" ? { "X-Headcount-Cost": "1" } : headers;
    return JSON.stringify({ ...rest, [name]: this.current }, null, 2);
  }
}

function parseHeaders(text: string): Record<string, unknown> | null {
  if (text.trim() === "") {
    return {};
  }
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
