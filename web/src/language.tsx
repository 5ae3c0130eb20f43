/**
 * The language the page speaks: chosen by the browser or by the reader, known to every component below the provider.
 */
import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from "react";
import { fill, type Language, languages, pickLanguage, type Sentence } from "./catalogue";

export type Say = (sentence: Sentence, values?: Record<string, string | number>) => string;

interface Speaking {
  language: Language;
  say: Say;
  choose(language: Language): void;
}

const STORAGE_NAME = "tidegate.language";
const Context = createContext<Speaking | undefined>(undefined);

function remembered(): string | null {
  try {
    return localStorage.getItem(STORAGE_NAME);
  } catch {
    return null;
  }
}

export function LanguageProvider({ children }: { children: ReactNode }) {
  const [language, setLanguage] = useState(() => pickLanguage(remembered(), navigator.languages));
  useEffect(() => {
    document.documentElement.lang = languages[language].tag;
  }, [language]);
  const speaking = useMemo<Speaking>(
    () => ({
      language,
      say: (sentence, values) => fill(languages[language].sentences[sentence], values),
      choose(next) {
        setLanguage(next);
        try {
          localStorage.setItem(STORAGE_NAME, next);
        } catch {
          // The choice lasts as long as the page.
        }
      },
    }),
    [language],
  );
  return <Context value={speaking}>{children}</Context>;
}

export function useLanguage(): Speaking {
  const speaking = useContext(Context);
  if (!speaking) throw new Error("a component outside the LanguageProvider asked for the language");
  return speaking;
}

export const useSentences = (): Say => useLanguage().say;
