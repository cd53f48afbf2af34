// Goal: a durable log on a simulated disk, written and found again by processes that may die at any operation.

import type { Log } from "../../src/base/log.ts";
import { Random } from "../../src/base/random.ts";
import type { FileLayer } from "../../src/node/checkpoint/file-layer.ts";
import { SegmentLog } from "../../src/node/durable/segment-log.ts";
import { writeAll } from "../../src/node/state/state-io.ts";
import { EntryKind, EntryPage } from "../../src/server/replication/log-entry.ts";
import type { LogPage } from "../../src/server/replication/log-sink.ts";
import { SimClock } from "../../src/testing/sim-clock.ts";
import { SETTLING } from "../support/settling.ts";
import { SimDisk } from "./sim-disk.ts";

export const DIRECTORY = "/durable/server-0";

/** One entry; those before a FILL are IDENTITY (DurableLog.D3). */
export function pageOf(number: number): LogPage {
  const kind =
    number % 8 === 3 ? EntryKind.IDENTITY : number % 8 === 4 ? EntryKind.FILL : number % 8 === 7 ? EntryKind.FILLED : EntryKind.WORKERS;
  const page = new EntryPage(new Uint8Array(512));
  page.addText(kind, new TextEncoder().encode(`entry ${number} ${"x".repeat((number * 37) % 300)}`));
  return { first: number, last: number, entries: page.bytes.subarray(0, page.length) };
}

export class LogStage {
  readonly clock: SimClock = new SimClock({ settle: SETTLING });
  readonly disk: SimDisk;
  /** What processes have said at warn. */
  readonly warnings: { readonly message: string; readonly fields: Readonly<Record<string, unknown>> | undefined }[] = [];
  readonly #random: Random;

  constructor(seed: number) {
    this.#random = new Random(seed);
    this.disk = new SimDisk(this.#random, "/durable");
  }

  /** A process that dies before its `operations`-th operation. */
  process(
    operations: number = Infinity,
    { mayBeUnfinished = false, segmentBytes = 1024 }: { readonly mayBeUnfinished?: boolean; readonly segmentBytes?: number } = {},
  ): { readonly log: SegmentLog; readonly isDead: () => boolean; readonly die: () => void } {
    const mount = this.disk.mount(this.clock, 0);
    let left = operations;
    const counted = <T extends object>(target: T): T =>
      new Proxy(target, {
        get: (of, name) => {
          const member: unknown = Reflect.get(of, name);
          if (typeof member !== "function") return member;
          return async (...args: unknown[]) => {
            if (--left === 0) mount.die();
            const result: unknown = await (member as (...args: unknown[]) => Promise<unknown>).apply(of, args);
            return name === "create" || name === "open" ? counted(result as object) : result;
          };
        },
      });
    const layer = counted(mount.layer) as FileLayer;
    const self = { id: String(this.#random.below(2 ** 30)), host: "sim", pid: 1, startedAt: "" };
    const { clock } = this;
    const says: Log = { debug() {}, info() {}, warn: (message, fields) => void this.warnings.push({ message, fields }), error() {} };
    const own = { directory: DIRECTORY, layer, self, isGone: () => true };
    const log = new SegmentLog({ ...own, clock, log: says, segmentBytes, mayBeUnfinished });
    return { log, isDead: () => left <= 0, die: () => mount.die() };
  }

  async recover({ mayBeUnfinished = false }: { readonly mayBeUnfinished?: boolean } = {}): Promise<LogPage[]> {
    const found: LogPage[] = [];
    const { log } = this.process(Infinity, { mayBeUnfinished });
    await this.clock.runUntil(
      log.open((page) => void found.push({ ...page, entries: page.entries.slice() })),
      { untilMs: this.clock.nowMs() + 60_000 },
    );
    await this.clock.runUntil(log.close(), { untilMs: this.clock.nowMs() + 60_000 });
    return found;
  }

  /** The bytes of a segment, by the number in its name. */
  async segment(number: number): Promise<Uint8Array> {
    const { layer } = this.disk.mount(this.clock, 0);
    const file = await layer.open(segmentPath(number));
    const bytes = new Uint8Array(await file.size());
    await file.read(bytes, 0);
    return bytes;
  }

  /** Puts these bytes in the place of a segment. */
  async replaceSegment(number: number, bytes: Uint8Array): Promise<void> {
    const { layer } = this.disk.mount(this.clock, 0);
    await layer.remove(segmentPath(number));
    await writeAll(await layer.create(segmentPath(number)), bytes, 0);
  }
}

export function segmentPath(number: number): string {
  return `${DIRECTORY}/log-${String(number).padStart(12, "0")}`;
}
