/**
 * Starts the page.
 */
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App, sessionInAddress } from "./App";
import { Chat } from "./chat";
import { browserWorld } from "./gateway/browser";
import { LanguageProvider } from "./language";
import "./styles/base.css";
import "./styles/chat.css";
import "./styles/deeds.css";
import "./styles/side.css";

const chat = new Chat(sessionInAddress(), browserStorage(), browserWorld);
void chat.start();

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <LanguageProvider>
        <App chat={chat} />
      </LanguageProvider>
    </StrictMode>,
  );
}

/** A browser that forbids storage throws on the mere mention of it: the page then keeps nothing over a reload. */
function browserStorage() {
  try {
    return window.localStorage;
  } catch {
    return { length: 0, key: () => null, getItem: () => null, setItem: () => undefined, removeItem: () => undefined };
  }
}
