/**
 * The screen of someone the gateway does not know: how to get a link, and a field for it.
 */
import { type FormEvent, useState } from "react";
import { useSentences } from "../language";
import type { ErrorBody } from "../wire";
import { Mark } from "./Icon";
import { LanguageSwitch } from "./Sidebar";

export function Login({ login }: { login(pasted: string): Promise<ErrorBody | undefined> }) {
  const say = useSentences();
  const [pasted, setPasted] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ErrorBody | undefined>();

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (pasted.trim() === "" || busy) return;
    setBusy(true);
    setError(await login(pasted));
    setBusy(false);
  };
  const sentence = (problem: ErrorBody) => {
    if (problem.code === "LOGIN_CODE_INVALID") return say("loginInvalid");
    return problem.code === "UNREACHABLE" ? say("loginUnreachable") : problem.message;
  };
  const [before = "", between = "", after = ""] = say("loginBody", { up: "\0", link: "\0" }).split("\0");
  return (
    <main className="login">
      <form onSubmit={submit}>
        <Mark />
        <h1>{say("loginTitle")}</h1>
        <p>
          {before}
          <code>tidegate up</code>
          {between}
          <code>tidegate gateway link</code>
          {after}
        </p>
        <label htmlFor="code">{say("loginField")}</label>
        <input
          id="code"
          value={pasted}
          autoFocus
          autoComplete="off"
          spellCheck={false}
          placeholder={say("loginPlaceholder")}
          aria-invalid={error !== undefined}
          aria-describedby="login-problem"
          onChange={(event) => setPasted(event.target.value)}
        />
        <p id="login-problem" className="problem" role="alert">
          {error && sentence(error)}
        </p>
        <button type="submit" disabled={busy || pasted.trim() === ""}>
          {say(busy ? "loginBusy" : "loginButton")}
        </button>
      </form>
      <LanguageSwitch />
    </main>
  );
}
