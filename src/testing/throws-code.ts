// throws-code — for `assert.throws` and `assert.rejects`: expects a WeighbridgeError with this code and message.

import { type ErrorCode, isWeighbridgeError } from "../base/errors.ts";

export function throwsCode(code: ErrorCode, message?: RegExp): (error: unknown) => boolean {
  return (error) => isWeighbridgeError(error, code) && (message === undefined || message.test(error.message));
}
