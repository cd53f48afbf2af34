// simple — SIMPLE: a number and some bytes to a node, an answer of bytes back. What SimpleApp is made of.

import type { WeighbridgeError } from "../base/errors.ts";
import type { RequestLabel } from "../peer/answer.ts";
import type { Channel, FunctionHandler } from "../peer/channel.ts";
import { FunctionId } from "../wire/function-id.ts";
import { bodyParts, checkBody, SimpleFlag } from "../wire/simple-frame.ts";
import { Answer, labelOf } from "./answer.ts";
import { BytesCall } from "./bytes-call.ts";

export type SimpleAddress = {
  readonly app: number;
  readonly customer: number;
  readonly head: number;
  /** The sender's own number of this request among those of its application and customer. Needed for bodies of several frames. */
  readonly number?: number;
};

const NOTHING = new Uint8Array(0);

/** A request as its receiver sees it; `channel` and `label` are needed to answer. */
export type SimpleRequest = { readonly channel: Channel; readonly label: RequestLabel; readonly body: Uint8Array };

/** Sends a body that `checkBody` has passed, in `bodyParts(body).length` calls that the channel admits. It must not change before `ended`. */
export function sendSimple(
  channel: Channel,
  address: SimpleAddress,
  body: Uint8Array,
  ended: (error: WeighbridgeError | undefined, answer: Uint8Array) => void,
): void {
  const { app, customer, head: command, number = 0 } = address;
  const common = { functionId: FunctionId.SIMPLE, priority: 0, isUpdate: true, app, customer, command };
  const parts = bodyParts(body);
  if (parts.length === 1) {
    const failed = (error: WeighbridgeError): void => ended(error, NOTHING);
    channel.send(new BytesCall({ ...common, body, answered: (answer) => ended(undefined, answer), failed }), true);
    return;
  }
  let openCount = parts.length;
  let failure: WeighbridgeError | undefined;
  let whole: Uint8Array = NOTHING;
  const oneEnded = (): void => {
    if (--openCount === 0) ended(failure, failure === undefined ? whole : NOTHING);
  };
  const answered = (answer: Uint8Array): void => {
    if (answer.length > 0) whole = answer; // to the last; those before are only acknowledged
    oneEnded();
  };
  const failed = (error: WeighbridgeError): void => {
    failure ??= error;
    oneEnded();
  };
  let from = 0;
  for (const [i, part] of parts.entries()) {
    const flags = i < parts.length - 1 ? SimpleFlag.PART : 0;
    channel.send(new BytesCall({ ...common, body: part, part: { flags, number, from, totalBytes: body.length }, answered, failed }), true);
    from += part.length;
  }
}

/** Serves SIMPLE requests of one application. `serve` answers with `answerSimple`, now or later; what it throws goes back as a failure. */
export function simpleHandler(serve: (request: SimpleRequest) => void): FunctionHandler {
  return {
    handle(channel, header, bytes, at, fresh): void {
      if (!fresh) return; // the asker has its answer: one that it may still need is remembered by the session
      channel.park(header.request);
      serve({ channel, label: labelOf(header), body: bytes.slice(at, at + header.payloadBytes) });
    },
  };
}

/** Throws BAD_ARGUMENT, nothing answered, when the body is too long. It must not change any more. */
export function answerSimple({ channel, label }: SimpleRequest, body: Uint8Array): void {
  checkBody(body);
  let offsetBytes = 0;
  const answers = bodyParts(body).map((payload) => {
    const answer = new Answer(label, { payload, totalBytes: body.length, offsetBytes });
    offsetBytes += payload.length;
    return answer;
  });
  channel.answerRemembered(label.request, answers);
}
