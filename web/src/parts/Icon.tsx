/**
 * The page's few line icons, drawn here so that nothing is fetched. They are decoration: the words beside them, or the
 * label of their button, say what they mean.
 */

const paths = {
  menu: "M4 7h16M4 12h16M4 17h16",
  plus: "M12 5v14M5 12h14",
  send: "M12 19V5M6 11l6-6 6 6",
  down: "M12 5v14M6 13l6 6 6-6",
  copy: "M9 9h10v11H9zM5 15V4h10",
  check: "M5 12.500l4.500 4.500L19 7.500",
  checks: "M2.500 12.500L7 17l9-9.500M12 16l1 1 8.500-9.500",
  clock: "M12 7.500V12l3 2M12 3.500a8.500 8.500 0 1 0 0 17 8.500 8.500 0 0 0 0-17z",
  alert: "M12 8v5M12 16.200v.1M12 3.500a8.500 8.500 0 1 0 0 17 8.500 8.500 0 0 0 0-17z",
  retry: "M19.500 12a7.500 7.500 0 1 1-2.200-5.300L19.500 9M19.500 4.500V9H15",
  chevron: "M9 6l6 6-6 6",
  dash: "M6 12h12",
  question:
    "M9.600 9.700a2.450 2.450 0 1 1 3.500 2.200c-.8.4-1.100.9-1.100 1.700M12 16.300v.1M12 3.500a8.500 8.500 0 1 0 0 17 8.500 8.500 0 0 0 0-17z",
  close: "M6 6l12 12M18 6L6 18",
  leave: "M14 8V5H5v14h9v-3M10 12h10M17 9l3 3-3 3",
  globe: "M3.500 12h17M12 3.500c5 5 5 12 0 17c-5-5-5-12 0-17zM12 3.500a8.500 8.500 0 1 0 0 17 8.500 8.500 0 0 0 0-17z",
} as const;

export type IconName = keyof typeof paths | "stop";

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      {name === "stop" ? <rect className="solid" x="7" y="7" width="10" height="10" rx="2" /> : <path d={paths[name]} />}
    </svg>
  );
}

/** The gate over the tide. */
export function Mark() {
  return (
    <svg className="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="9" />
      <path d="M10 8v6M16 8v6M22 8v6M7 19c2.200-1.800 4.200-1.800 6 0s3.800 1.800 6 0 4.200-1.800 6 0" />
      <path className="faint" d="M7 24c2.200-1.800 4.200-1.800 6 0s3.800 1.800 6 0 4.200-1.800 6 0" />
    </svg>
  );
}
