// One operation by npm's graphql-ws ("ws") or graphql-sse ("sse"); what happens to it is told in lines of JSON.
// The only argument: {transport, url, tokens, query, variables, options}. Each connection takes the next token, the last
// one stays.
import { createClient as overEvents } from "graphql-sse";
import { createClient as overSocket } from "graphql-ws";
import WebSocket from "ws";

const { transport, url, tokens = [], query, variables, options = {} } = JSON.parse(process.argv[2]);
const say = (what) => console.log(JSON.stringify(what));

let connections = 0;
const authorization = () => {
  const token = tokens[Math.min(connections++, tokens.length - 1)];
  return token ? { Authorization: `Bearer ${token}` } : {};
};
const wait = () => new Promise((resolve) => setTimeout(resolve, 20)); // in place of seconds

const client =
  transport === "ws"
    ? overSocket({
        url,
        webSocketImpl: WebSocket,
        connectionParams: authorization,
        retryWait: wait,
        on: {
          closed: (event) => say({ closed: event.code }),
          pong: () => say({ pong: true }),
        },
        ...options,
      })
    : overEvents({ url, headers: authorization, retry: wait, ...options });

client.subscribe(
  { query, variables },
  {
    next: (result) => say({ next: result }),
    error: (error) => {
      say({ error: Array.isArray(error) ? error : { name: error.name, code: error.code, message: error.message } });
      client.dispose();
    },
    complete: () => {
      say({ complete: true });
      client.dispose();
    },
  },
);
