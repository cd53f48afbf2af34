// simple — SIMPLE: a number and some bytes to a node, an answer of bytes back. What SimpleApp is made of.

import { WeighbridgeError } from "../base/errors.ts";
import { Answer, labelOf, type RequestLabel } from "../peer/answer.ts";
import { BytesCall } from "../peer/bytes-call.ts";
import type { Channel, FunctionHandler } from "../peer/channel.ts";
import { PAYLOAD_BYTES_MAX } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";

export type SimpleAddress = { readonly app: number; readonly customer: number; readonly head: number };

/** A request as its receiver sees it; `channel` and `label` are needed to answer. */
export type SimpleRequest = { readonly channel: Channel; readonly label: RequestLabel; readonly body: Uint8Array };

export function sendSimple(
  channel: Channel,
  address: SimpleAddress,
  body: Uint8Array,
  ended: (error: WeighbridgeError | undefined, answer: Uint8Array) => void,
): void {
  const call = new BytesCall({
    functionId: FunctionId.SIMPLE,
    priority: 0,
    isUpdate: true,
    app: address.app,
    customer: address.customer,
    command: address.head,
    body,
    answered: (answer) => ended(undefined, answer),
    failed: (error) => ended(error, new Uint8Array(0)),
  });
  channel.send(call);
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

export function answerSimple({ channel, label }: SimpleRequest, body: Uint8Array): void {
  checkBody(body);
  channel.answerRemembered(label.request, [new Answer(label, { payload: body })]);
}

/** Bodies travel in one frame. */
export function checkBody(body: Uint8Array): void {
  if (body.length > PAYLOAD_BYTES_MAX) {
    throw new WeighbridgeError(
      "BAD_ARGUMENT",
      `a body of ${body.length} bytes is over the limit of ${PAYLOAD_BYTES_MAX}: send values with push`,
    );
  }
}
