// kv-frame — whether the lengths that the header of a kv frame tells add up to its payload. Looks at no key and no value.

import { WeighbridgeError } from "../../base/errors.ts";
import { kvPull } from "../../contracts/kv.ts";
import { BLOCK_BYTES, type FrameHeader } from "../../wire/frame.ts";
import { KEY_BYTES, KvFlag, LEN_BYTES } from "../../wire/kv-message.ts";

/** Throws BAD_REQUEST; numbers are u32, so nothing here can overflow a double. */
export function checkKvFrame(header: FrameHeader, elementBytes: number): void {
  const { arg0: keyCount, arg1: width, arg2: offset, flags, payloadBytes, functionId } = header;
  const sends = functionId !== kvPull.id;
  if (keyCount === 0) throw doNotAddUp("a request without keys, as one that its sender has withdrawn");
  if ((flags & KvFlag.PIECE) !== 0) {
    checkPiece(header, elementBytes, sends);
    return;
  }
  if (offset !== 0) throw doNotAddUp(`offset ${offset} outside a piece`);
  if ((flags & KvFlag.LENS) !== 0) {
    const valueBytes = payloadBytes - keyCount * (KEY_BYTES + LEN_BYTES);
    if (!sends) throw doNotAddUp("lengths where none belong");
    if (valueBytes < 0 || valueBytes % elementBytes !== 0) throw doNotAddUp(`${payloadBytes} bytes for ${keyCount} keys and lengths`);
    return;
  }
  if (width === 0 && (sends || (flags & KvFlag.WANT_LENS) === 0)) throw doNotAddUp("no width and no lengths");
  const expected = keyCount * (KEY_BYTES + (sends ? width * elementBytes : 0));
  if (payloadBytes !== expected) throw doNotAddUp(`${payloadBytes} bytes for ${keyCount} keys of ${width} values, which take ${expected}`);
}

function checkPiece({ arg0, arg1: width, arg2: offset, flags, payloadBytes }: FrameHeader, elementBytes: number, sends: boolean): void {
  const blockValues = BLOCK_BYTES / elementBytes;
  if ((flags & KvFlag.LENS) !== 0) throw doNotAddUp("lengths where none belong");
  if (arg0 !== 1 || offset >= width || offset % blockValues !== 0)
    throw doNotAddUp(`a piece of ${arg0} keys at value ${offset} of ${width}`);
  const expected = KEY_BYTES + (sends ? Math.min(blockValues, width - offset) * elementBytes : 0);
  if (payloadBytes !== expected) throw doNotAddUp(`a piece with ${payloadBytes} bytes instead of ${expected}`);
}

export function doNotAddUp(what: string): WeighbridgeError {
  return new WeighbridgeError("BAD_REQUEST", `lengths do not add up: ${what}`);
}
