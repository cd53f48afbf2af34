// json-call — a control message and its answer, as a promise. Control functions mean the same when asked twice.

import type { Clock } from "../base/clock.ts";
import { Deferred, type WaitOptions, waitFor } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { PAYLOAD_BYTES_MAX } from "../wire/frame.ts";
import { type Check, decodeJson, encodeJson } from "../wire/json-body.ts";
import { Answer, labelOf } from "./answer.ts";
import { BytesCall } from "./bytes-call.ts";
import type { Channel, FunctionHandler } from "./channel.ts";

/** Control messages pass everything else. */
const CONTROL_PRIORITY = 1 << 30;

export type ControlMessage<Q, R> = {
  readonly functionId: number;
  readonly name: string;
  readonly request: Check<Q>;
  readonly reply: Check<R>;
};

/** Asks and waits for the answer. */
export async function ask<Q, R>(
  channel: Channel,
  message: ControlMessage<Q, R>,
  body: Q,
  clock: Clock,
  wait: WaitOptions = {},
): Promise<R> {
  const reply = new Deferred<R>();
  const call = new BytesCall({
    functionId: message.functionId,
    priority: CONTROL_PRIORITY,
    isUpdate: false,
    app: 0,
    customer: 0,
    command: 0,
    body: encodeBody(message.name, body),
    answered: (answer) => reply.resolve(decodeJson(message.reply, `the answer to ${message.name}`, answer)),
    failed: (error) => reply.reject(error),
  });
  channel.send(call);
  return await waitFor(reply.promise, `${channel.name} to answer ${message.name}`, clock, wait);
}

/** Serves a control message with a function that answers at once or later. */
export function serveControl<Q, R>(
  message: ControlMessage<Q, R>,
  serve: (channel: Channel, request: Q) => R | Promise<R>,
): FunctionHandler {
  return {
    handle(channel, header, bytes, at): void {
      const label = labelOf(header);
      const request = decodeJson(message.request, message.name, bytes.subarray(at, at + header.payloadBytes));
      const answer = serve(channel, request);
      const reply = (value: R): void => {
        const payload = encodeBody(`the answer to ${message.name}`, value);
        channel.answerRemembered(label.request, [new Answer(label, { payload })]);
      };
      if (!(answer instanceof Promise)) {
        reply(answer);
        return;
      }
      channel.park(label.request);
      const { conversation } = channel;
      // An answer to a conversation that began anew meanwhile would be taken for one to another request of the same number.
      const isDue = (): boolean => channel.conversation === conversation;
      answer
        .then((value) => {
          if (isDue()) reply(value);
        })
        .catch((thrown: unknown) => {
          if (isDue()) channel.fail(label, thrown);
        });
    },
  };
}

/** Control messages are one frame. What others had us collect must not grow beyond it unnoticed. */
function encodeBody(name: string, value: unknown): Uint8Array {
  const body = encodeJson(value);
  if (body.length <= PAYLOAD_BYTES_MAX) return body;
  throw new WeighbridgeError("UNSUPPORTED", `${name} takes ${body.length} bytes, but a frame has room for ${PAYLOAD_BYTES_MAX}`);
}
