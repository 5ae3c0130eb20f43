// Written by hand until the generated file of the same shape is there.

export interface Methods {
  "me.get": { params: Nothing; result: Me };
  "sessions.list": { params: ListSessions; result: SessionList };
  "session.subscribe": { params: SubscribeSession; result: Subscribed };
  "session.unsubscribe": { params: Unsubscribe; result: Ack };
  "message.send": { params: SendMessage; result: MessageSent };
  "run.abort": { params: RunRef; result: Ack };
  "approval.list": { params: ListApprovals; result: ApprovalList };
  "approval.decide": { params: DecideApproval; result: ApprovalAnswered };
  "events.resume": { params: ResumeEvents; result: Resumed };
}

export interface Events {
  hello: Hello;
  tick: { at: number };
  missed: Nothing;
  shutdown: { reason: string };
  "sessions.changed": { session: string; reason: string };
  "run.changed": { session: string; run: RunChanged };
  "approval.asked": ApprovalNews;
  "approval.settled": ApprovalNews;
  "session.snapshot": Snapshot;
  "session.run": RunChanged;
  "session.delta": Delta;
  "session.tool": ToolNews;
  "session.done": Done;
  "session.note": unknown;
}

export type Nothing = Record<string, never>;
export type Ack = Record<string, never>;
export type Me = { name: string; version: string; agent: string };
export type Hello = {
  protocol: number;
  server: { name: string; version: string; bootId: string; connId: string };
  seq: number;
  me: Me;
  policy: { tickMs: number; maxFrameBytes: number; maxQueuedBytes: number; maxRequests: number };
  methods: Array<string>;
  events: Array<string>;
};
export type ListSessions = { limit?: number | null; before?: number | null; query?: string | null };
export type SessionList = { sessions: Array<SessionItem>; more?: boolean };
export type SessionItem = { name: string; title: string; updatedAt: number; running: boolean };
export type Cursor = { sessionId: string; seq: number };
export type SubscribeSession = { session: string; agent?: string | null; cursor?: Cursor | null };
export type Subscribed = { sub: string };
export type Unsubscribe = { sub: string };
export type SendMessage = { session: string; agent?: string | null; text: string; key: string };
export type MessageSent = { runId: string; replayed: boolean };
export type RunRef = { runId: string };
export type ListApprovals = { limit?: number | null };
export type ApprovalList = { approvals: Array<ApprovalView> };
export type ApprovalDecision = "allow-once" | "allow-always" | "deny";
export type DecideApproval = {
  id: string;
  decision: ApprovalDecision;
  always?: boolean;
  reason?: string | null;
  prefix?: number | null;
};
export type ApprovalAnswered = { won: boolean; approval: ApprovalView };
export type ResumeEvents = { bootId: string; afterSeq: number };
export type Resumed = { resumed: boolean; seq: number };
export type ApprovalNews = { approval: ApprovalView };
export type ApprovalView = {
  id: string;
  agent: string;
  session: string;
  run?: string | null;
  tool: string;
  state: string;
  requester: string;
  reason: string;
  args: unknown;
  commands: Array<string>;
  shell: boolean;
  cwd?: string | null;
  env: Array<string>;
  subjects: Array<string>;
  preview?: string | null;
  rule?: string | null;
  prefix?: { words: number; rule: string } | null;
  answeredBy?: string | null;
  answerReason?: string | null;
  createdAt: number;
  expiresAt: number;
};
export type RunState = "queued" | "running" | "completed" | "failed" | "aborted" | "interrupted" | "joined" | string;
export type ErrorBody = { code: string; message: string; details?: unknown };
export type LogLine = { seq: number; role: "user" | "assistant" | "toolResult"; text: string; at: number; runId: string };
export type SummaryLine = { seq: number; at: number };
export type PartialText = { text: string; seq: number };
export type RunChanged = {
  runId: string;
  state: RunState;
  text: string;
  key?: string | null;
  at: number;
  attempt: number;
  error?: ErrorBody | null;
};
export type RunLine = RunChanged & { partial: PartialText | null };
export type Snapshot = {
  session: string;
  sessionId?: string | null;
  partial?: boolean;
  messages: Array<LogLine>;
  summaries?: Array<SummaryLine>;
  runs: Array<RunLine>;
};
export type Delta = { runId: string; attempt: number; seq: number; text: string };
export type Done = { runId: string; messages: Array<LogLine>; summaries?: Array<SummaryLine> };
export type ToolNews = {
  runId: string;
  attempt: number;
  callId: string;
  name?: string | null;
  phase: "start" | "update" | "result";
  gist?: string | null;
  text?: string | null;
  ok?: boolean | null;
  durationMs?: number | null;
};
