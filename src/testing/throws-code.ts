// throws-code — for `assert.throws` and `assert.rejects`: is it an error of ours with this code, and does its message match?

import { type ErrorCode, isWeighbridgeError } from "../base/errors.ts";

export function throwsCode(code: ErrorCode, message?: RegExp): (error: unknown) => boolean {
  return (error) => isWeighbridgeError(error, code) && (message === undefined || message.test(error.message));
}
