/**
 * The socket of a browser, at the address the page came from.
 */
import { me } from "../api";
import type { World } from "./link";

const PATH = "/api/v1/socket";

export const browserWorld: World = {
  open({ text, closed }) {
    const url = new URL(PATH, location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url);
    socket.onmessage = ({ data }) => {
      if (typeof data === "string") text(data);
    };
    socket.onclose = () => closed();
    return { send: (words) => socket.send(words), close: () => socket.close() };
  },
  async whoami() {
    const answer = await me();
    return answer.kind === "ok" ? "known" : answer.kind === "login" ? "stranger" : "away";
  },
  random: () => Math.random(),
};
