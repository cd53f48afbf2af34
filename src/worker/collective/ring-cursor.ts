// ring-cursor — which part of an array comes next from the left, when sums go round a ring. Pure.
//
// The array is cut into as many segments as there are members. A member begins by sending the segment of its own
// position to the right; then whatever comes from the left it adds to its own values, or in the second round takes
// over, and hands on to the right:
//
//   member p receives   p−1, p−2, … p+1   sums of 1, 2, … n−1 members: adds its own. Segment p+1, the last, is
//                                         complete.
//                       p, p−1, … p+2     complete sums: takes them. The very last is not handed on.
//
// Invariants:
//   RingCursor.C1. Segment s is summed in the order of positions s, s+1, … n−1, 0, … s−1: the same for every member and
//       every run.
//   RingCursor.C2. Parts come in this one order, so the index of a part says all about it.

/** `partLength`: elements of a part at most. */
export type RingPosition = Readonly<{ length: number; position: number; memberCount: number; partLength: number }>;

/** Where segment `segment` begins; that of `memberCount` is the end. */
export function segmentFrom(segment: number, { length, memberCount }: Pick<RingPosition, "length" | "memberCount">): number {
  return Math.floor((length * segment) / memberCount);
}

/** The parts of a range, in order. */
export function* partsOf(from: number, to: number, partLength: number): Iterable<{ readonly from: number; readonly to: number }> {
  for (let at = from; at < to; at += partLength) yield { from: at, to: Math.min(to, at + partLength) };
}

export class RingCursor {
  /** The part that comes next, in elements of the array; meaningless once it `isOver`. */
  from = 0;
  to = 0;
  /** Its index (RingCursor.C2). */
  index = 0;
  readonly #ring: RingPosition;
  /** Which segment is coming, counted from the first. */
  #step = -1;
  #segmentTo = 0;

  constructor(ring: RingPosition) {
    this.#ring = ring;
    this.#enter();
  }

  get isOver(): boolean {
    return this.#step > this.#lastStep;
  }

  /** Whether the part is a sum that lacks this member's values. */
  get isPartial(): boolean {
    return this.#step < this.#ring.memberCount - 1;
  }

  get isHandedOn(): boolean {
    return this.#step < this.#lastStep;
  }

  advance(): void {
    this.index++;
    this.from = this.to;
    if (this.from < this.#segmentTo) this.#cut();
    else this.#enter();
  }

  get #lastStep(): number {
    return 2 * this.#ring.memberCount - 3;
  }

  /** To the next segment that has anything in it. */
  #enter(): void {
    const { position, memberCount } = this.#ring;
    do {
      this.#step++;
      const segment = (position - 1 - this.#step + 2 * memberCount) % memberCount; // RingCursor.C1
      this.from = segmentFrom(segment, this.#ring);
      this.#segmentTo = segmentFrom(segment + 1, this.#ring);
    } while (this.from === this.#segmentTo && !this.isOver);
    this.#cut();
  }

  #cut(): void {
    this.to = Math.min(this.#segmentTo, this.from + this.#ring.partLength);
  }
}
