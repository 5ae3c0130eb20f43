/**
 * Whole seconds until a moment, counted down while a component is on show, and how they are said.
 */
import { useEffect, useState } from "react";
import type { Say } from "../language";

const LOOK_MS = 250;

export function useSecondsUntil(until: number | undefined): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (until === undefined) return undefined;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), LOOK_MS);
    return () => clearInterval(timer);
  }, [until]);
  return until === undefined ? 0 : Math.max(0, Math.ceil((until - now) / 1000));
}

export function sayDuration(say: Say, ms: number): string {
  if (ms < 10_000) return say("seconds", { n: (ms / 1000).toFixed(1) });
  return saySeconds(say, Math.round(ms / 1000));
}

export function saySeconds(say: Say, seconds: number): string {
  if (seconds < 60) return say("seconds", { n: seconds });
  return say("minutes", { m: Math.floor(seconds / 60), n: String(seconds % 60).padStart(2, "0") });
}
