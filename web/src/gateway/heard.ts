/**
 * Which broadcasts were heard, so that those sent again after a break are taken once. The numbers have holes (not
 * everybody may hear everything), so a hole means nothing: only the gateway says that something is missed.
 */

/** Numbers remembered at most: more than the gateway keeps to send again. */
const KEPT = 4096;

export class Heard {
  private readonly recent = new Set<number>();
  private highest: number;

  /** Everything up to `floor` was heard before, or is older than what we know. */
  constructor(private floor: number) {
    this.highest = floor;
  }

  /** True the first time. */
  take(seq: number): boolean {
    if (seq <= this.floor || this.recent.has(seq)) return false;
    this.recent.add(seq);
    this.highest = Math.max(this.highest, seq);
    if (this.recent.size > KEPT) this.forget();
    return true;
  }

  /** The highest number heard. */
  get last(): number {
    return this.highest;
  }

  private forget(): void {
    const [oldest] = this.recent;
    if (oldest === undefined) return;
    this.recent.delete(oldest);
    this.floor = Math.max(this.floor, oldest);
  }
}
