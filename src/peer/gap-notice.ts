// gap-notice — the frame that tells the other side which of its requests is missing.

import { type FrameHeader, Kind } from "../wire/frame.ts";
import type { FrameBatch } from "./frame-batch.ts";
import type { Notice } from "./outbox.ts";

export class GapNotice implements Notice {
  readonly priority: number = 0x7fffffff;
  readonly byteCount = 0;
  readonly isRepeatable = true;
  readonly isFresh = false;
  readonly isCall = false;
  readonly #missing: number;

  constructor(missing: number) {
    this.#missing = missing;
  }

  writeTo(header: FrameHeader, batch: FrameBatch): void {
    header.reset(Kind.NOTICE, 0);
    header.request = this.#missing;
    batch.begin(header, 0);
  }

  discard(): void {
    // It holds nothing.
  }
}
