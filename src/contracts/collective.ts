// collective — operations of workers among themselves. The frames have a layout of their own
// (wire/collective-frame.ts): a part is read to where it belongs in the caller's array, and its header says where that
// is. What workers exchange in such operations is in row-exchange.ts.

import { FunctionId } from "../wire/function-id.ts";
import type { FrameContract } from "./contract.ts";

/** A part of an operation. It counts once, without a stamp: a restarted member is in no operation. */
export const collectivePart: FrameContract<typeof FunctionId.COLLECTIVE> = {
  id: FunctionId.COLLECTIVE,
  name: "wb/collective/part",
  target: "worker",
  effect: "update",
  layout: "spec/protocol.md, 10b. COLLECTIVE",
};
