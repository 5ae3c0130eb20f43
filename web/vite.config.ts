/**
 * How the page is built. The gateway serves `dist/` under a policy that allows its own origin only, so nothing may be
 * inlined into the HTML or into data: addresses.
 */
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react()],
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: {
    // `npm run dev` with the stand-in gateway of tests/fake-gateway.mjs, or with a real one.
    proxy: Object.fromEntries(
      ["/api", "/login"].map((path) => [path, { target: "http://127.0.0.1:4310", changeOrigin: false, ws: true }]),
    ),
  },
  test: { include: ["tests/unit/**/*.test.ts"] },
});
