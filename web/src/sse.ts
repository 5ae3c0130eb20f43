/**
 * The text format of server-sent events, as an incremental parser: bytes arrive cut anywhere, whole events leave.
 * It knows nothing of what the events mean.
 */

export interface RawEvent {
  event: string;
  data: string;
}

export class EventParser {
  private rest = "";
  private event = "";
  private data: string[] = [];

  /** Takes the next piece of text and returns the events it completed. */
  push(text: string): RawEvent[] {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.line(line));
  }

  private line(line: string): RawEvent[] {
    if (line === "") return this.flush();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.event = value;
    if (field === "data") this.data.push(value);
    return [];
  }

  private flush(): RawEvent[] {
    const whole = { event: this.event || "message", data: this.data.join("\n") };
    const empty = this.data.length === 0;
    this.event = "";
    this.data = [];
    return empty ? [] : [whole];
  }
}
