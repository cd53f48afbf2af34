// kv-assembly — the keys, values and lens of a kv request that comes in several frames (kv-message.ts), as lists of
// bytes in the order of the frames. It does not check what the frames say, nor copy: its owner keeps the bytes.

import { KEY_BYTES } from "../keys/key-range.ts";
import type { FrameHeader } from "./frame.ts";
import { KvFlag, LEN_BYTES } from "./kv-message.ts";

export class KvAssembly {
  readonly keys: Uint8Array[] = [];
  readonly values: Uint8Array[] = [];
  /** Empty unless the keys have lengths of their own. */
  readonly lens: Uint8Array[] = [];

  /** Adds a frame: `keep` appends the bytes of its payload from `from` to `to`, at least one, to a list. */
  add(header: FrameHeader, keep: (list: Uint8Array[], from: number, to: number) => void): void {
    const { arg0: keyCount, arg1: width, arg2: offset, flags, payloadBytes } = header;
    const keyBytes = keyCount * KEY_BYTES;
    const lensBytes = (flags & KvFlag.LENS) === 0 ? 0 : keyCount * LEN_BYTES;
    const valueEnd = payloadBytes - lensBytes;
    if (offset === 0) {
      keep(this.keys, 0, keyBytes);
      if (lensBytes > 0) keep(this.lens, valueEnd, payloadBytes);
      else if ((flags & KvFlag.VARIABLE) !== 0) this.lens.push(new Uint8Array(Int32Array.of(width).buffer));
    }
    if (valueEnd > keyBytes) keep(this.values, keyBytes, valueEnd);
  }
}
