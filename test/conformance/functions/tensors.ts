// tensors — what spec/functions.md says of src/contracts/tensors.ts.

import * as tensors from "../../../src/contracts/tensors.ts";
import * as words from "./common-words.ts";
import { documented, type FunctionFamily } from "./documented.ts";

const { PARAMETER, BLOCK, CLOCK, PUSH_NUMBER, SCALE, BLOCK_GRADIENTS, BLOCK_ROWS, ROW_GRADIENTS, PUSH_PAYLOAD, PULL_PAYLOAD } = words;
const blockWords = { parameter: PARAMETER, block: BLOCK, clock: CLOCK };
const pushWords = { ...blockWords, pushNumber: PUSH_NUMBER, scale: SCALE };
const values = "the values of the block, in order";
const block = { parameter: 1, block: 2, clock: 3 };
const push = { ...block, pushNumber: 5, scale: 1 };
const gradients = Float32Array.of(1, -2, 0.5, 4);
const answer = { values: Float32Array.of(-1, 2, -0.5, -4) };
/** 1, -2, 0.5 and 4 as fp16. */
const halves = Uint8Array.of(0, 0x3c, 0, 0xc0, 0, 0x38, 0, 0x44);

export const TENSORS: FunctionFamily = {
  title: "Blocks of a tensor",
  about:
    "A tensor is cut into blocks (protocol.md, B2 and B3), and each request is about one. A push of a whole tensor is one request for each block, all with one push number.",
  functions: [
    documented(tensors.tensorPush, {
      about: "Applies a gradient of the whole block with the tensor's optimizer.",
      request: { ...pushWords, gradients: BLOCK_GRADIENTS },
      response: {},
      errors: words.PUSH_ERRORS,
      example: { request: { ...push, gradients }, response: {} },
    }),
    documented(tensors.tensorPull, {
      about: "Answers the values of the block as soon as the clocks allow it (consistency.md, W2).",
      request: blockWords,
      response: { values },
      errors: words.PULL_ERRORS,
      example: { request: block, response: answer },
    }),
    documented(tensors.tensorPushPull, {
      about:
        "A push, and the values of the block right after it with nothing in between. Of a tensor with sync updates they are those before the push: it counts when its round is complete.",
      request: { ...pushWords, gradients: BLOCK_GRADIENTS },
      response: { values },
      errors: words.PUSH_PULL_ERRORS,
      example: { request: { ...push, gradients }, response: answer },
    }),
    documented(tensors.tensorPushRows, {
      about: "Applies gradients of some rows of the block; the others stay as they are. A push of no rows changes nothing.",
      request: { ...pushWords, rows: BLOCK_ROWS, gradients: ROW_GRADIENTS },
      response: {},
      errors: words.PUSH_ERRORS,
      example: { request: { ...push, rows: Uint32Array.of(4, 0), gradients }, response: {} },
    }),
    documented(tensors.tensorPullRows, {
      about: "Answers some rows of the block as soon as the clocks allow it.",
      request: { ...blockWords, rows: "rows of the block, counted from its first; one that is named twice is answered twice" },
      response: { values: "the rows one after the other, in the order of `rows`" },
      errors: words.PULL_ERRORS,
      example: { request: { ...block, rows: Uint32Array.of(4, 0, 4) }, response: { values: Float32Array.of(-1, 2, -0.5, -4, -1, 2) } },
    }),
    documented(tensors.tensorPushRowsPull, {
      about: "As `wb/tensor/push-rows`, and the values of the whole block right after it.",
      request: { ...pushWords, rows: BLOCK_ROWS, gradients: ROW_GRADIENTS },
      response: { values },
      errors: words.PUSH_PULL_ERRORS,
      example: { request: { ...push, rows: Uint32Array.of(1), gradients: gradients.subarray(0, 2) }, response: answer },
    }),
    documented(tensors.tensorPushPullRows, {
      about: "As `wb/tensor/push-rows`, and other rows of the block right after it.",
      request: {
        ...pushWords,
        pushRows: BLOCK_ROWS,
        gradients: "the rows of gradients one after the other, in the order of `pushRows`",
        pullRows: "the rows to be read, counted from the block's first",
      },
      response: { values: "the rows one after the other, in the order of `pullRows`" },
      errors: words.PUSH_PULL_ERRORS,
      example: {
        request: { ...push, pushRows: Uint32Array.of(1), gradients: gradients.subarray(0, 2), pullRows: Uint32Array.of(0, 1) },
        response: answer,
      },
    }),
    documented(tensors.tensorStart, {
      about:
        "Gives the block the values that it begins with, in place of those of its initializer. The first to come counts. Once values were given, or anybody has pushed to the block, nothing is changed.",
      request: { parameter: PARAMETER, block: BLOCK, values: "one for each element of the block, in order; finite" },
      response: { isTaken: "whether these are the values now" },
      errors: [...words.FIND_ERRORS, "OUT_OF_RANGE", "VALUE_LENGTH", "NOT_FINITE", "ARENA_FULL"],
      example: { request: { parameter: 1, block: 2, values: gradients }, response: { isTaken: true } },
    }),
    documented(tensors.tensorPushEncoded, {
      about: "As `wb/tensor/push`, for a tensor that has a link.",
      request: { ...pushWords, gradients: PUSH_PAYLOAD },
      response: {},
      errors: [...words.PUSH_ERRORS, ...words.CODED_ERRORS],
      example: { request: { ...push, gradients: halves }, response: {} },
    }),
    documented(tensors.tensorPullEncoded, {
      about: "As `wb/tensor/pull`, for a tensor that has a link.",
      request: blockWords,
      response: { values: PULL_PAYLOAD },
      errors: words.PULL_ERRORS,
      example: { request: block, response: { values: halves } },
    }),
    documented(tensors.tensorPushPullEncoded, {
      about: "As `wb/tensor/push-pull`, for a tensor that has a link.",
      request: { ...pushWords, gradients: PUSH_PAYLOAD },
      response: { values: PULL_PAYLOAD },
      errors: [...words.PUSH_PULL_ERRORS, ...words.CODED_ERRORS],
      example: { request: { ...push, gradients: halves }, response: { values: halves } },
    }),
    documented(tensors.tensorPushRowsEncoded, {
      about: "As `wb/tensor/push-rows`, for a tensor that has a link. There is one row at least.",
      request: { ...pushWords, rows: BLOCK_ROWS, gradients: PUSH_PAYLOAD },
      response: {},
      errors: [...words.PUSH_ERRORS, ...words.CODED_ERRORS],
      example: { request: { ...push, rows: Uint32Array.of(4, 0), gradients: halves }, response: {} },
    }),
    documented(tensors.tensorPullRowsEncoded, {
      about: "As `wb/tensor/pull-rows`, for a tensor that has a link. There is one row at least.",
      request: { ...blockWords, rows: BLOCK_ROWS },
      response: { values: PULL_PAYLOAD },
      errors: words.PULL_ERRORS,
      example: { request: { ...block, rows: Uint32Array.of(4, 0) }, response: { values: halves } },
    }),
  ],
};
