// The server audits of npm's graphql-http, one line of JSON each. The only argument is the address.
import { auditServer } from "graphql-http";

const results = await auditServer({ url: process.argv[2] });
for (const { id, name, status, reason } of results) {
  console.log(JSON.stringify({ id, name, status, reason }));
}
