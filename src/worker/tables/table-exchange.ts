// table-exchange — what a process table and the servers say to each other (contracts/tables.ts): updates of rows out,
// rows in, both planned by owner and cut into frames as every request for rows is (router/row-plan.ts). What
// failed requests mean is here, too. It keeps nothing: process-table.ts does.
//
// Invariants:
//   TableExchange.E1. Updates that servers have taken are forgotten also where no rows come in: beyond UNSETTLED_MAX
//       requests, servers are asked how far they are.

import { isWeighbridgeError, reasonOf, restated, WeighbridgeError } from "../../base/errors.ts";
import { tableRead, tableUpdate } from "../../contracts/tables.ts";
import { KEY_BYTES, WORD_BYTES } from "../../kernel/elements.ts";
import { ROW_ELEMENTS, type RowArray, type RowElement, wordsOf } from "../../kernel/row-element.ts";
import { mayBeApplied } from "../../peer/call.ts";
import { failedUpdate } from "../../peer/unheard-update.ts";
import { BLOCK_BYTES } from "../../wire/frame.ts";
import type { RowRequests } from "../embedding.ts";
import type { AnyRequest, Recut } from "../router/function-request.ts";
import type { RowFrame, RowPlan } from "../router/row-plan.ts";
import { requestOf } from "../router.ts";
import type { RowOrigin, SentRows, SentUpdates, UpdatedRows } from "./sent-updates.ts";
import type { Pusher } from "./subscribed-rows.ts";

const HALF = 2 ** 32;
/** So many requests with updates are kept before servers are asked what they have taken (TableExchange.E1). */
const UNSETTLED_MAX = 64;
const NO_KEYS = new BigUint64Array(0);

/** Rows that came in: `words` has `width` of them for each key. Void when the call that hands them over returns. */
export type ArrivedRows = RowOrigin & {
  /** Which process the server is (0 before it is known), and the epoch of the placement by which it owned the rows. */
  readonly from: Pusher;
  readonly keys: BigUint64Array;
  readonly words: Uint32Array;
  readonly clock: number;
  readonly order: number;
};

type RowsResponse = { readonly clock: number; readonly applied: number; readonly order: number; readonly values: Float32Array };

export type TableExchangeOptions<E extends RowElement> = {
  readonly client: RowRequests;
  readonly element: E;
  readonly sent: SentUpdates<E>;
  /** Whether rows have the updates of the clocks before theirs and no others (0056). */
  readonly isExact: boolean;
  /** Whether servers push rows that were read. */
  readonly subscribes: boolean;
  /** Whether updates travel as whole rows. */
  readonly sendsWholeRows: boolean;
  readonly arrived: (rows: ArrivedRows) => void;
  /** Updates of these rows were not applied, and will not be. */
  readonly updateFailed: (rows: UpdatedRows<E>, error: WeighbridgeError) => void;
};

/**
 * Which process a server is; 0 before it is known. One that took over from its head is another one: it knows nothing
 * that was not logged.
 */
export function processOf({ functions }: RowRequests, server: number): number {
  return functions.router.channels[server]?.incarnation ?? 0;
}

/** The id of the row at a place of a list of keys. */
export function rowIdAt(keys: Uint32Array, index: number): number {
  return (keys[2 * index + 1] as number) * HALF + (keys[2 * index] as number);
}

/** The same list as words. */
export function halvesOf({ buffer, byteOffset, length }: BigUint64Array): Uint32Array {
  return new Uint32Array(buffer, byteOffset, 2 * length);
}

export function keysOf(rowIds: Iterable<number>, count: number): BigUint64Array {
  const keys = new BigUint64Array(count);
  const halves = halvesOf(keys);
  let i = 0;
  for (const rowId of rowIds) {
    halves[i++] = rowId >>> 0;
    halves[i++] = Math.floor(rowId / HALF);
  }
  return keys;
}

export class TableExchange<E extends RowElement = RowElement> {
  readonly #options: TableExchangeOptions<E>;
  readonly #rowsPerFrame: number;
  /** Payload bytes out and in. */
  sentBytes = 0;
  receivedBytes = 0;
  /** With so many requests that may not be in rows servers are asked (TableExchange.E1). */
  #surveyAt = UNSETTLED_MAX;

  constructor(options: TableExchangeOptions<E>) {
    this.#options = options;
    this.#rowsPerFrame = Math.max(1, Math.floor(BLOCK_BYTES / (KEY_BYTES + 2 * options.client.width * WORD_BYTES)));
  }

  /**
   * Sends updates stamped with a clock. They leave, or queue to leave, before this returns. Rejects once all have
   * ended.
   */
  async update(rows: UpdatedRows<E>, clock: number): Promise<void> {
    await this.#withFrames(keysOf(rows.keys(), rows.size), (frames) => this.#updates(frames, rows, clock));
  }

  /** Asks for rows as of a clock; they are handed to `arrived`. */
  async read(rowIds: ReadonlySet<number>, clock: number): Promise<void> {
    await this.#withFrames(keysOf(rowIds, rowIds.size), (frames) => this.#reads(frames, clock));
  }

  /** A single row, the most frequent request of a small model, needs no plan. */
  async #withFrames(keys: BigUint64Array, requestsOf: (frames: readonly RowFrame[]) => AnyRequest[]): Promise<void> {
    const { planner, functions, handle } = this.#options.client;
    if (keys.length === 1) {
      const [low, high] = halvesOf(keys) as unknown as [number, number];
      const { epoch } = planner.placement;
      const frame = { server: planner.ownerOf(low, high), from: 0, to: 1, keys, opens: true, epoch };
      return await functions.router.call(requestsOf([frame]), handle);
    }
    const plan = planner.plan(keys);
    try {
      await functions.router.call(requestsOf(this.#framesOf(plan)), handle);
    } finally {
      plan.release();
    }
  }

  #framesOf(plan: RowPlan): RowFrame[] {
    return plan.frames(this.#rowsPerFrame);
  }

  #updates(frames: readonly RowFrame[], rows: UpdatedRows<E>, clock: number): AnyRequest[] {
    const { client, sent, isExact, updateFailed } = this.#options;
    const { handle, planner } = client;
    const { parameter } = handle;
    return frames.map((frame) => {
      const pushNumber = handle.numberPush(clock);
      const encoded = this.#encode(frame.keys, rows);
      const batch: SentRows<E> = {
        rows: encoded.rows,
        server: frame.server,
        epoch: isExact ? 0 : frame.epoch,
        call: { stamp: isExact ? clock + 1 : 0 },
        isAcknowledged: false,
      };
      sent.sent(batch);
      const made = (call: { readonly stamp: number }): void => {
        if (!isExact) batch.call = call;
      };
      const answered = (): void => {
        batch.isAcknowledged = true;
        if (sent.sentCount >= this.#surveyAt) this.#survey();
      };
      const failed = (error: WeighbridgeError): void => {
        sent.forget(batch);
        updateFailed(batch.rows, error);
      };
      const cutAgain = (): Recut => {
        sent.forget(batch);
        return planner.again(frame.keys, (again) => ({ requests: this.#updates(this.#framesOf(again), rows, clock) }));
      };
      const { keys, counts, columns, updates } = encoded;
      const request = { parameter, clock, pushNumber, keys, counts, columns, updates };
      return requestOf(tableUpdate, { to: frame, request, scope: parameter, made, answered, failed, cutAgain });
    });
  }

  /** The elements that are not zero, or whole rows where those are shorter. */
  #encode(
    keys: BigUint64Array,
    rows: UpdatedRows<E>,
  ): {
    readonly rows: UpdatedRows<E>;
    readonly keys: BigUint64Array;
    readonly counts: Uint32Array;
    readonly columns: Uint32Array;
    readonly updates: Float32Array;
  } {
    const halves = halvesOf(keys);
    const [width, wordsEach] = [this.#options.client.width, ROW_ELEMENTS[this.#options.element].bytes / WORD_BYTES];
    const counts = new Uint32Array(keys.length);
    const taken: UpdatedRows<E> = new Map();
    let total = 0;
    for (let i = 0; i < keys.length; i++) {
      const rowId = rowIdAt(halves, i);
      const cells = rows.get(rowId) as RowArray<E>;
      taken.set(rowId, cells);
      let count = 0;
      for (let j = 0; j < cells.length; j++) if (cells[j] !== 0 && cells[j] !== 0n) count++;
      counts[i] = count;
      total += count;
    }
    const isWhole = this.#options.sendsWholeRows || total * (1 + wordsEach) >= keys.length * width;
    const columns = new Uint32Array(isWhole ? 0 : total);
    const updates = new Float32Array(isWhole ? keys.length * width : total * wordsEach);
    const to = new Uint32Array(updates.buffer);
    let next = 0;
    let at = 0;
    for (const cells of taken.values()) {
      const words = wordsOf(cells);
      const from = new Uint32Array(words.buffer, words.byteOffset, words.length);
      if (isWhole) {
        to.set(from, at);
        at += width;
        continue;
      }
      for (let j = 0; j < cells.length; j++) {
        if (cells[j] === 0 || cells[j] === 0n) continue;
        columns[next++] = j;
        for (let word = 0; word < wordsEach; word++) to[at++] = from[j * wordsEach + word] as number;
      }
    }
    this.sentBytes += keys.byteLength + (isWhole ? 0 : counts.byteLength) + columns.byteLength + updates.byteLength;
    return { rows: taken, keys, counts: isWhole ? new Uint32Array(0) : counts, columns, updates };
  }

  #reads(frames: readonly RowFrame[], clock: number): AnyRequest[] {
    const { planner } = this.#options.client;
    return frames.map((frame) => {
      const { keys } = frame;
      this.sentBytes += keys.byteLength;
      const cutAgain = (): Recut => planner.again(keys, (again) => ({ requests: this.#reads(this.#framesOf(again), clock) }));
      return this.#readOf(frame, { clock, subscribes: this.#options.subscribes }, cutAgain);
    });
  }

  #readOf(
    { server, epoch, keys }: Pick<RowFrame, "server" | "epoch" | "keys">,
    about: { readonly clock: number; readonly subscribes: boolean },
    cutAgain: () => Recut,
  ): AnyRequest {
    const { client, isExact, arrived } = this.#options;
    const { parameter } = client.handle;
    const answered = (response: RowsResponse): void => {
      const { values, order, clock } = response;
      const words = new Uint32Array(values.buffer, values.byteOffset, values.byteLength / WORD_BYTES);
      this.receivedBytes += values.byteLength;
      const origin = { server, epoch: isExact ? 0 : epoch, taken: isExact ? clock : response.applied };
      const from = { server, incarnation: processOf(client, server), epoch };
      arrived({ ...origin, from, keys, words, clock, order });
    };
    return requestOf(tableRead, { to: { server, epoch }, request: { parameter, ...about, keys }, scope: parameter, answered, cutAgain });
  }

  /** TableExchange.E1 */
  #survey(): void {
    const { client, sent } = this.#options;
    const { functions, handle } = client;
    this.#surveyAt = Infinity;
    const requestOfServer = (server: number): AnyRequest =>
      this.#readOf({ server, epoch: functions.epoch, keys: NO_KEYS }, { clock: 0, subscribes: false }, () => ({
        requests: [requestOfServer(server)],
        release: () => {},
      }));
    functions.router
      .call(functions.servers.map(requestOfServer), handle)
      .catch(() => {}) // the next one reports it
      .finally(() => {
        this.#surveyAt = Math.max(UNSETTLED_MAX, 2 * sent.sentCount);
      });
  }
}

/** Whether a server says that this worker is no member of its clock set: it joins again by itself. */
export function isOutside(error: unknown): boolean {
  return isWeighbridgeError(error, "NOT_JOINED") || isWeighbridgeError(error, "STALE_UPDATE");
}

/**
 * Whether updates that failed with this were not applied, and may be when they are sent again: a server does not count
 * this worker as a member, or could not be reached before they had left.
 */
export function isUnsent(error: WeighbridgeError): boolean {
  return isOutside(error) || (error.code === "NODE_DEAD" && error.retryable && !mayBeApplied(error));
}

/** Says what has failed, with the code of the reason, and with what became of an update. */
export function errorOf(what: string, reason: unknown): WeighbridgeError {
  const message = `${what}: ${reasonOf(reason)}`;
  if (!isWeighbridgeError(reason)) return new WeighbridgeError("HANDLER_FAILED", message, { cause: reason });
  const told = restated(reason, message);
  return told.outcome === undefined ? told : (failedUpdate(told) as WeighbridgeError);
}
