// frame-run — small frames that are alike and follow each other share one header: a run. 64 pushes of one float are 1 KB instead of 5, and a
// header is made and read once for all of them. Whoever receives a run has received the frames it stands for, no more and no less.
//
//   header, more = 2 │ payload of request n │ payload of request n + 1 │ payload of request n + 2        each padded to 8 bytes
//
// From one frame to the next, `request` rises by one, and so do `stamp` unless it is 0, and `arg3` of requests (the kv functions have the
// request's timestamp there). Everything else is the same. `settled` is that of the first.

import { type FrameHeader, Kind } from "./frame.ts";

/** Makes of a frame's header that of the next one in its run. */
export function stepRun(header: FrameHeader): void {
  header.request++;
  if (header.stamp !== 0) header.stamp++;
  if (header.kind === Kind.REQUEST) header.arg3 = (header.arg3 + 1) >>> 0;
}

/** Whether `stepRun` would make the one header of the other, so that their frames may share it. */
export function continuesRun(last: FrameHeader, header: FrameHeader): boolean {
  return (
    header.request === last.request + 1 &&
    header.kind === last.kind &&
    header.payloadBytes === last.payloadBytes &&
    header.functionId === last.functionId &&
    header.flags === last.flags &&
    header.priority === last.priority &&
    header.epoch === last.epoch &&
    header.stamp === (last.stamp === 0 ? 0 : last.stamp + 1) &&
    header.app === last.app &&
    header.customer === last.customer &&
    header.command === last.command &&
    header.arg0 === last.arg0 &&
    header.arg1 === last.arg1 &&
    header.arg2 === last.arg2 &&
    header.arg3 === (last.kind === Kind.REQUEST ? (last.arg3 + 1) >>> 0 : last.arg3)
  );
}
