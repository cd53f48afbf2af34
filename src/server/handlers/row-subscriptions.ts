// row-subscriptions — which rows workers have in their process caches and want to be told of when they change (Petuum:
// SSPPush). For each worker and table one loop: it waits until the lowest clock has risen, sends the rows that have
// changed since it sent last, and waits for the worker's answer. So a worker that is slow is sent fewer states and
// never a wrong last one, and what is kept for it is a mark for each row.
//
// Invariants:
//   RowSubscriptions.S1. Once the lowest clock has risen, every subscribed row with an update stamped before it is
//       sent, and then that clock. A row that is not sent has not changed since it was read or sent: sync updates
//       change it when their round is applied, wherever they came in.
//   RowSubscriptions.S2. A worker that dies, leaves the clock set or is restarted has subscribed to nothing. A loop
//       that ends for another reason is begun again by that worker's next read.
//   RowSubscriptions.S3. Subscriptions are soft state: a standby has none, and a server that takes over from its head,
//       or is restarted, learns of them when workers read again; they tell its process from the one before.
//   RowSubscriptions.S4. Changes that all subscribers have been sent are forgotten.

import { isWeighbridgeError, type WeighbridgeError } from "../../base/errors.ts";
import { tablePushed } from "../../contracts/tables.ts";
import { KEY_BYTES, WORD_BYTES } from "../../kernel/elements.ts";
import { BLOCK_BYTES } from "../../wire/frame.ts";
import { keepKeys } from "../parameters/call-memory.ts";
import type { TableParameter } from "../parameters/table-parameter.ts";
import type { ServerContext } from "../server-context.ts";

const LOW = 0xffff_ffffn;
/** So many changes are kept, at least, before those that everybody was sent are looked for (RowSubscriptions.S4). */
const CHANGES_MIN = 1024;
/** How long a loop waits for the lowest clock before it looks again whether anybody is there. */
const WAIT_MS = 600_000;

type Subscriber = {
  readonly context: ServerContext;
  /** The rows it wants, and how many reads there were when it asked for each last. */
  readonly keys: Map<bigint, number>;
  /** What its waits are for, in the pacer's words: no parameter, whose bound could be changed. */
  readonly unit: number;
  /** How many changes there were when rows were sent last, and the lowest clock then. */
  sentChanges: number;
  sentClock: number;
};

class SubscribedTable {
  readonly subscribers = new Map<number, Subscriber>();
  /** By row: how many changes there were with its last one, if a subscriber may not know of it yet. */
  readonly changes = new Map<bigint, number>();
  /** TableContracts.T4 */
  changeCount = 0;
  readCount = 0;
  /** RowSubscriptions.S4 */
  #pruneAt = CHANGES_MIN;

  /** Rows of it were updated. */
  changed(keys: BigUint64Array): void {
    const order = ++this.changeCount;
    if (this.subscribers.size === 0) return;
    for (const key of keys) this.changes.set(key, order);
    if (this.changes.size >= this.#pruneAt) this.#prune();
  }

  /** RowSubscriptions.S4 */
  #prune(): void {
    let sent = Infinity;
    for (const { sentChanges } of this.subscribers.values()) sent = Math.min(sent, sentChanges);
    for (const [key, order] of this.changes) if (order <= sent) this.changes.delete(key);
    this.#pruneAt = Math.max(CHANGES_MIN, 2 * this.changes.size);
  }
}

export class RowSubscriptions {
  readonly #tables = new WeakMap<TableParameter, SubscribedTable>();

  static on(context: ServerContext): RowSubscriptions {
    return context.own("wb/tables/subscriptions", () => new RowSubscriptions());
  }

  /**
   * A worker reads these rows now, and is sent them from the next rise of the lowest clock on; not by a standby
   * (RowSubscriptions.S3).
   */
  add(table: TableParameter, keys: BigUint64Array, context: ServerContext): void {
    if (context.replica?.isStandby === true) return;
    const subscribed = this.#of(table);
    let subscriber = subscribed.subscribers.get(context.worker);
    if (subscriber === undefined || subscriber.context.incarnation !== context.incarnation) {
      const { clockMin } = context.parameters.pacer;
      subscriber = { context, keys: new Map(), unit: table.host.nextPacerId(), sentChanges: subscribed.changeCount, sentClock: clockMin };
      subscribed.subscribers.set(context.worker, subscriber);
      void this.#serve(table, subscribed, subscriber);
    }
    subscribed.readCount++;
    for (const key of keys) subscriber.keys.set(key, subscribed.readCount);
  }

  /** TableContracts.T4 */
  orderOf(table: TableParameter): number {
    return this.#of(table).changeCount;
  }

  #of(table: TableParameter): SubscribedTable {
    let subscribed = this.#tables.get(table);
    if (subscribed === undefined) {
      const made = new SubscribedTable();
      subscribed = made;
      this.#tables.set(table, made);
      table.onChanged = (keys) => made.changed(keys);
    }
    return subscribed;
  }

  async #serve(table: TableParameter, subscribed: SubscribedTable, subscriber: Subscriber): Promise<void> {
    const { context } = subscriber;
    try {
      while (subscribed.subscribers.get(context.worker) === subscriber && this.#isThere(table, context)) {
        if (await this.#hasRisen(subscriber)) await this.#push(table, subscribed, subscriber);
      }
    } catch {
      // RowSubscriptions.S2: the worker is gone, or could not be reached and will ask
    } finally {
      if (subscribed.subscribers.get(context.worker) === subscriber) subscribed.subscribers.delete(context.worker);
      if (subscribed.subscribers.size === 0) subscribed.changes.clear();
    }
  }

  #isThere(table: TableParameter, { parameters }: ServerContext): boolean {
    return parameters.tables.get(table.number) === table;
  }

  /**
   * Waits for the lowest clock; false when it has not risen for long. Throws NOT_JOINED, NODE_DEAD, CLOSED and what
   * else ends a wait.
   */
  async #hasRisen({ context, sentClock, unit }: Subscriber): Promise<boolean> {
    const { pacer } = context.parameters;
    const next = { ...context.holder, parameter: unit, clock: sentClock + 1, staleness: 0, bytes: 0, timeoutMs: WAIT_MS, isQuiet: true };
    return await new Promise<boolean>((resolve, reject) => {
      const failed = (error: WeighbridgeError): void => (error.code === "DEADLINE" ? resolve(false) : reject(error));
      const parked = pacer.read({ ...next, read: { admitted: () => resolve(true), failed } });
      if (parked === undefined) resolve(true);
    });
  }

  /** RowSubscriptions.S1 */
  async #push(table: TableParameter, subscribed: SubscribedTable, subscriber: Subscriber): Promise<void> {
    const { context } = subscriber;
    const { clockMin: clock } = context.parameters.pacer;
    const keys = changedKeys(subscribed, subscriber);
    subscriber.sentChanges = subscribed.changeCount;
    subscriber.sentClock = clock;
    const rowsMax = Math.max(1, Math.floor(BLOCK_BYTES / (KEY_BYTES + table.words * WORD_BYTES)));
    const about = { clock, applied: table.taken.of(context.holder), order: subscribed.changeCount };
    const calls: Promise<void>[] = [];
    for (let from = 0; from === 0 || from < keys.length; from += rowsMax) {
      const part = keys.subarray(from, from + rowsMax);
      calls.push(pushRows(table, part, subscriber, { ...about, hasMore: from + rowsMax < keys.length, readCount: subscribed.readCount }));
    }
    await Promise.all(calls);
  }
}

/** The subscribed rows of which the worker has not seen the last update. */
function changedKeys({ changes }: SubscribedTable, subscriber: Subscriber): BigUint64Array {
  const { keys, sentChanges, context } = subscriber;
  const { ownership } = context;
  const changed: bigint[] = [];
  for (const key of keys.keys()) {
    if (!ownership.ownsKey(Number(key & LOW), Number(key >> 32n)))
      keys.delete(key); // its new owner pushes it (TableContracts.T5)
    else if ((changes.get(key) ?? 0) > sentChanges) changed.push(key);
  }
  return BigUint64Array.from(changed);
}

/** What is said with rows that are pushed, and how many reads there were. */
type Pushing = {
  readonly clock: number;
  readonly applied: number;
  readonly order: number;
  readonly hasMore: boolean;
  readonly readCount: number;
};

async function pushRows(
  table: TableParameter,
  keys: BigUint64Array,
  subscriber: Subscriber,
  { readCount, ...about }: Pushing,
): Promise<void> {
  const { context } = subscriber;
  const { arena } = table.host;
  const kept = keepKeys(arena, keys);
  const held: { release(): void }[] = [kept];
  try {
    const out = table.roomFor(kept.list, { hold: (one) => held.push(one) });
    const values = table.pullPlain(kept.list, { out, reader: context });
    const epoch = context.ownership.placement?.epoch ?? 0;
    const request = { parameter: table.number, epoch, ...about, keys: kept.list, values };
    for (;;) {
      try {
        const { dropped } = await context.workers.call(context.worker, tablePushed, request, { incarnation: context.incarnation });
        // Not one that it has asked for since.
        for (const key of dropped) if ((subscriber.keys.get(key) ?? Infinity) <= readCount) subscriber.keys.delete(key);
        return;
      } catch (thrown) {
        if (!isWeighbridgeError(thrown, "QUEUE_FULL")) throw thrown;
        await context.workers.whenRoom(context.worker);
      }
    }
  } finally {
    for (const one of held) one.release();
  }
}
