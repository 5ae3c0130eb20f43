/**
 * The list of conversations, with what belongs to the page as a whole at its foot. On a narrow screen it is a drawer.
 */
import { type Language, languages } from "../catalogue";
import { useLanguage, useSentences } from "../language";
import type { Me, SessionRow } from "../wire";
import { Icon, Mark } from "./Icon";

interface Props {
  sessions: SessionRow[];
  current: string;
  me: Me | undefined;
  /** On a wide screen the list is always there; a closed drawer must not be reachable. */
  hidden: boolean;
  open(session: string): void;
  begin(): void;
  close(): void;
  logout(): void;
}

export function Sidebar({ sessions, current, me, hidden, open, begin, close, logout }: Props) {
  const say = useSentences();
  const listed = sessions.some(({ name }) => name === current);
  const fresh: SessionRow = { name: current, title: "", updatedAt: 0, running: false };
  return (
    <nav className="sidebar" aria-label={say("conversations")} inert={hidden}>
      <header>
        <Mark />
        <span className="brand">Tidegate</span>
        <button type="button" className="plain drawer-only" aria-label={say("closeList")} onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      <button type="button" className="begin" onClick={begin}>
        <Icon name="plus" /> {say("newConversation")}
      </button>
      <ul>
        {(listed ? sessions : [fresh, ...sessions]).map((session) => (
          <li key={session.name}>
            <button
              type="button"
              aria-current={session.name === current ? "page" : undefined}
              onClick={() => open(session.name)}
            >
              <span className="title">{titleOf(session, say("untitled"), say("mainConversation"))}</span>
              {session.running && (
                <span className="running" title={say("answering")}>
                  <span className="unseen">{say("answering")}</span>
                </span>
              )}
            </button>
          </li>
        ))}
      </ul>
      <Foot me={me} logout={logout} />
    </nav>
  );
}

function titleOf(session: SessionRow, untitled: string, main: string): string {
  const named = session.title.trim();
  if (named !== "" && named !== session.name) return named;
  return session.name === "main" ? main : named || untitled;
}

function Foot({ me, logout }: { me: Me | undefined; logout(): void }) {
  const say = useSentences();
  return (
    <footer>
      {me && (
        <p className="me">
          <span>{me.name}</span> <small>{say("version", { version: me.version })}</small>
        </p>
      )}
      <div>
        <LanguageSwitch />
        {me && (
          <button type="button" className="plain" aria-label={say("logout")} title={say("logout")} onClick={logout}>
            <Icon name="leave" />
          </button>
        )}
      </div>
    </footer>
  );
}

export function LanguageSwitch() {
  const { language, say, choose } = useLanguage();
  return (
    <label className="language">
      <Icon name="globe" />
      <span className="unseen">{say("language")}</span>
      <select value={language} onChange={(event) => choose(event.target.value as Language)}>
        {Object.entries(languages).map(([code, { name, tag }]) => (
          <option key={code} value={code} lang={tag}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}
