/**
 * How the page stands with the gateway, in one small pill; while it waits, pressing it tries at once.
 */
import type { Connection } from "../gateway/link";
import { useSentences } from "../language";
import { useSecondsUntil } from "./seconds";

export function ConnectionPill({ connection, reconnect }: { connection: Connection; reconnect(): void }) {
  const say = useSentences();
  const seconds = useSecondsUntil(connection.state === "waiting" ? connection.until : undefined);
  if (connection.state !== "waiting") {
    return (
      <span className={`pill ${connection.state}`} role="status" data-connection={connection.state}>
        <i /> {say(connection.state)}
      </span>
    );
  }
  const text = seconds > 0 ? say("reconnectingIn", { n: seconds }) : say("reconnectingNow");
  return (
    <button type="button" className="pill waiting" title={say("reconnect")} data-connection="waiting" onClick={reconnect}>
      <i /> {text}
    </button>
  );
}
