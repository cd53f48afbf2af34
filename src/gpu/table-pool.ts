// table-pool — memory for the tables of launches, on the host and on the card: a launch has one until it is done.

import type { CudaCard } from "./cuda-card.ts";
import type { TableSpan } from "./round-kernel.ts";

export class TablePool {
  readonly #card: CudaCard;
  readonly #free: TableSpan[] = [];

  constructor(card: CudaCard) {
    this.#card = card;
  }

  /** At least so many bytes. Throws DEVICE_MEMORY_FULL. */
  take(byteCount: number): TableSpan {
    const index = this.#free.findIndex(({ pinned }) => pinned.byteCount >= byteCount);
    if (index >= 0) return this.#free.splice(index, 1)[0]!;
    const pinned = this.#card.pinned.take(byteCount);
    return { pinned, address: this.#card.allocate(pinned.byteCount) };
  }

  /** The launch is done. */
  giveBack(table: TableSpan): void {
    this.#free.push(table);
  }

  close(): void {
    for (const { pinned, address } of this.#free.splice(0)) {
      this.#card.pinned.giveBack(pinned);
      this.#card.release(address);
    }
  }
}
