// cuda-stream — streams and events of a card. A stream does its work in order; different streams run side by side. An
// event marks a point of a stream for which other streams, and this process, can wait.

import type { WaitOptions } from "../base/deferred.ts";
import { checkWaitOptions } from "../base/known-options.ts";
import type { CudaCard } from "./cuda-card.ts";
import { CUDA_NOT_READY, CUDA_SUCCESS } from "./cuda-driver.ts";

const STREAM_NON_BLOCKING = 1;

/** A point in the work of a stream. */
export class CudaEvent {
  /** @internal */
  readonly card: CudaCard;
  /** The driver's CUevent. */
  readonly handle: number;

  /** @internal Ours are borrowed from the card; a foreign event is wrapped. */
  constructor(card: CudaCard, handle: number) {
    this.card = card;
    this.handle = handle;
  }

  /** Whether all work before it is done. Throws DEVICE_FAILED if that work failed. */
  get isDone(): boolean {
    this.card.enter();
    const code = this.card.driver.functions.cuEventQuery(this.handle);
    if (code === CUDA_NOT_READY) return false;
    if (code !== CUDA_SUCCESS) this.card.check(code, "work on the card failed");
    return true;
  }

  /**
   * @internal Milliseconds on the card from the other event to this one; both are timed (`CudaCard.timedEvent`) and
   * done.
   */
  msSince(start: CudaEvent): number {
    this.card.enter();
    const { driver } = this.card;
    return driver.readFloat("cuEventElapsedTime", driver.functions.cuEventElapsedTime, start.handle, this.handle);
  }

  /** @internal Destroys a timed event. */
  close(): void {
    this.card.enter();
    this.card.check(this.card.driver.functions.cuEventDestroy(this.handle), "cuEventDestroy");
  }

  /** Gives an event that `record` made back; it must not be used afterwards. */
  release(): void {
    this.card.keepEvent(this);
  }
}

/** Work of a card that is done in order. */
export class CudaStream {
  /** @internal */
  readonly card: CudaCard;
  /** The driver's CUstream; 0 is the card's default stream. */
  readonly handle: number;
  readonly #isForeign: boolean;

  /** @internal A stream of our own; one of another library, which stays its own, with its handle. */
  constructor(card: CudaCard, handle?: number) {
    this.card = card;
    this.#isForeign = handle !== undefined;
    card.enter();
    const { driver } = card;
    this.handle = handle ?? driver.read(`${card.title}: cuStreamCreate`, driver.functions.cuStreamCreate, STREAM_NON_BLOCKING);
  }

  /** An event behind the work that the stream has now. The caller gives it back with `release`. */
  record(): CudaEvent {
    const event = this.card.borrowEvent();
    this.recordInto(event);
    return event;
  }

  /** @internal Records this event behind the work that the stream has now. */
  recordInto(event: CudaEvent): void {
    this.card.enter();
    this.card.check(this.card.driver.functions.cuEventRecord(event.handle, this.handle), "cuEventRecord");
  }

  /** Work that the stream gets from now on waits for the event, on the card; the call does not wait. */
  waitFor(event: CudaEvent): void {
    this.card.enter();
    this.card.check(this.card.driver.functions.cuStreamWaitEvent(this.handle, event.handle, 0), "cuStreamWaitEvent");
  }

  /** Work that this stream gets from now on waits for what the other has. */
  follow(other: CudaStream): void {
    if (other.handle === this.handle && other.card === this.card) return;
    const event = other.record();
    this.waitFor(event);
    event.release(); // A wait holds for the moment that was recorded, even if the event is recorded again.
  }

  /**
   * Resolves when all work that the stream has now is done. Rejects with DEVICE_FAILED if it failed, DEADLINE, ABORTED.
   */
  async finish(options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    const event = this.record();
    try {
      await this.card.waits.whenDone(event, options);
    } finally {
      event.release();
    }
  }

  /** Destroys the stream, unless it is another library's. */
  close(): void {
    if (this.#isForeign) return;
    this.card.enter();
    this.card.check(this.card.driver.functions.cuStreamDestroy(this.handle), "cuStreamDestroy");
  }
}
