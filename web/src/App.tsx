/**
 * The page: the login screen or the conversation with its list. It connects the store to the components and to what
 * the browser tells (address, network, visibility, other tabs).
 */
import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import type { Chat, View } from "./chat";
import { useSentences } from "./language";
import { newSession } from "./names";
import { Composer } from "./parts/Composer";
import { ConnectionPill } from "./parts/ConnectionPill";
import { Icon, Mark } from "./parts/Icon";
import { Login } from "./parts/Login";
import { Messages } from "./parts/Messages";
import { OtherQuestions } from "./parts/OtherQuestions";
import { Sidebar } from "./parts/Sidebar";
import { isPending } from "./questions";
import { elsewhere, rows, runningRun } from "./view";
import type { Decision } from "./wire";

/** The open conversation stands in the address, so that a reload and a bookmark find it. */
export function sessionInAddress(): string {
  try {
    return decodeURIComponent(/^#\/(.+)$/.exec(location.hash)?.[1] ?? "main");
  } catch {
    return "main";
  }
}

export function App({ chat }: { chat: Chat }) {
  const view = useSyncExternalStore(chat.subscribe, chat.current);
  useBrowser(chat);
  const login = useCallback((pasted: string) => chat.login(pasted), [chat]);
  if (view.phase === "login") return <Login login={login} />;
  if (view.phase === "starting") return <Starting view={view} chat={chat} />;
  return <Talk chat={chat} view={view} />;
}

function useBrowser(chat: Chat): void {
  useEffect(() => {
    const nudge = () => {
      if (document.visibilityState === "visible") chat.nudge();
    };
    const onStorage = (event: StorageEvent) => chat.onStorage(event.key, event.newValue);
    const onHash = () => {
      const session = sessionInAddress();
      if (session !== chat.current().conversation.session) chat.open(session);
    };
    window.addEventListener("online", nudge);
    document.addEventListener("visibilitychange", nudge);
    window.addEventListener("storage", onStorage);
    window.addEventListener("hashchange", onHash);
    return () => {
      window.removeEventListener("online", nudge);
      document.removeEventListener("visibilitychange", nudge);
      window.removeEventListener("storage", onStorage);
      window.removeEventListener("hashchange", onHash);
    };
  }, [chat]);
}

function Starting({ view, chat }: { view: View; chat: Chat }) {
  const say = useSentences();
  return (
    <main className="starting">
      <Mark />
      <p>
        <i className="spin" /> {say("starting")}
      </p>
      {view.connection.state === "waiting" && (
        <ConnectionPill connection={view.connection} reconnect={() => chat.nudge()} />
      )}
    </main>
  );
}

function Talk({ chat, view }: { chat: Chat; view: View }) {
  const say = useSentences();
  const [drawer, setDrawer] = useState(false);
  const narrow = useNarrow();
  const { conversation, connection, me, sessions, questions } = view;
  const shown = useMemo(() => rows(conversation, questions), [conversation, questions]);
  const agent = me?.agent || "Tidegate";
  const running = runningRun(conversation);
  const verbs = useMemo(
    () => ({
      resend: (key: string) => chat.resend(key),
      discard: (key: string) => chat.discard(key),
      ask: (text: string) => chat.send(text),
      decide: (decision: Decision) => void chat.decide(decision),
    }),
    [chat],
  );
  const open = (session: string) => {
    setDrawer(false);
    location.hash = `#/${encodeURIComponent(session)}`;
  };
  useEscape(drawer, () => setDrawer(false));
  useTitle(
    sessions.find(({ name }) => name === conversation.session)?.title,
    questions.filter(({ question }) => isPending(question)).length,
  );

  return (
    <div className={drawer ? "page drawer-open" : "page"}>
      <a className="skip" href="#message" onClick={(event) => focusField(event)}>
        {say("skip")}
      </a>
      <Sidebar
        sessions={sessions}
        current={conversation.session}
        me={me}
        hidden={narrow && !drawer}
        open={open}
        begin={() => open(newSession(Date.now()))}
        close={() => setDrawer(false)}
        logout={() => void chat.logout()}
      />
      <div className="veil" onClick={() => setDrawer(false)} />
      <main inert={narrow && drawer}>
        <header className="top">
          <button type="button" className="plain drawer-only" aria-label={say("openList")} onClick={() => setDrawer(true)}>
            <Icon name="menu" />
          </button>
          <h1>{agent}</h1>
          <ConnectionPill connection={connection} reconnect={() => chat.nudge()} />
        </header>
        <Messages
          conversation={conversation}
          shown={shown}
          problem={view.problem}
          openAgain={() => chat.openAgain()}
          agent={agent}
          verbs={verbs}
        />
        <OtherQuestions others={conversation.ready ? elsewhere(shown, questions) : []} decide={verbs.decide} dismiss={(id) => chat.dismiss(id)} />
        <Composer
          key={conversation.session}
          session={conversation.session}
          agent={agent}
          running={running?.runId}
          stopping={running !== undefined && view.stopping === running.runId}
          send={verbs.ask}
          stop={(runId) => void chat.stop(runId)}
        />
      </main>
    </div>
  );
}

function focusField(event: React.MouseEvent): void {
  // The address holds the conversation; the link must not change it.
  event.preventDefault();
  document.getElementById("message")?.focus();
}

function useNarrow(): boolean {
  const query = useMemo(() => matchMedia("(max-width: 800px)"), []);
  return useSyncExternalStore(
    (listener) => {
      query.addEventListener("change", listener);
      return () => query.removeEventListener("change", listener);
    },
    () => query.matches,
  );
}

function useEscape(active: boolean, act: () => void): void {
  useEffect(() => {
    if (!active) return undefined;
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape") act();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  });
}

/** A tab in the background says how many questions wait. */
function useTitle(title: string | undefined, waiting: number): void {
  useEffect(() => {
    const count = waiting > 0 ? `(${waiting}) ` : "";
    document.title = count + (title ? `${title} · Tidegate` : "Tidegate");
  }, [title, waiting]);
}
