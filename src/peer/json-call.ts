// json-call — a control message and its answer, as a promise. Control functions mean the same when asked twice.

import type { Clock } from "../base/clock.ts";
import { Deferred, type WaitOptions, waitFor } from "../base/deferred.ts";
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
    body: encodeJson(body),
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
      if (!(answer instanceof Promise)) {
        channel.answerRemembered(label.request, [new Answer(label, { payload: encodeJson(answer) })]);
        return;
      }
      channel.park(label.request);
      answer.then(
        (value) => channel.answerRemembered(label.request, [new Answer(label, { payload: encodeJson(value) })]),
        (thrown: unknown) => channel.fail(label, thrown),
      );
    },
  };
}
