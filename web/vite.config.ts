import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [react()],
  // Relative addresses: the page works behind a proxy that serves it under a prefix.
  base: "./",
  build: {
    target: "es2022",
    // The editor is most of the page and loads as one.
    chunkSizeWarningLimit: 8192,
    reportCompressedSize: false,
    // What the bundled packages ask of those who pass them on.
    license: { fileName: "licenses.md" },
    rolldownOptions: {
      input: "graphiql.html",
      // "use no memo" in GraphiQL's own files speaks to React's compiler, which has run on them already.
      onLog: (level, log, report) => {
        if (log.code !== "MODULE_LEVEL_DIRECTIVE") {
          report(level, log);
        }
      },
    },
  },
  worker: { format: "es" },
  logLevel: "warn",
});
