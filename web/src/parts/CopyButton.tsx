/**
 * A button that copies a text and says whether it did.
 */
import { useEffect, useState } from "react";
import { useSentences } from "../language";
import { Icon } from "./Icon";

const SHOWN_MS = 1600;

export function CopyButton({ text, label }: { text: string; label: string }) {
  const say = useSentences();
  const [outcome, setOutcome] = useState<"copied" | "copyFailed" | undefined>();
  useEffect(() => {
    if (!outcome) return undefined;
    const timer = setTimeout(() => setOutcome(undefined), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [outcome]);
  const copy = async () => setOutcome((await copyText(text)) ? "copied" : "copyFailed");
  return (
    <button type="button" className="copy" aria-label={outcome ? say(outcome) : label} title={label} onClick={copy}>
      <Icon name={outcome === "copied" ? "check" : outcome ? "alert" : "copy"} />
      <span role="status" className="unseen">
        {outcome && say(outcome)}
      </span>
    </button>
  );
}

/** The clipboard interface exists on secure origins only; a gateway in the home network needs the older way. */
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "unseen";
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    return copied;
  }
}
