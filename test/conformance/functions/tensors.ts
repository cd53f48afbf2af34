// tensors — what spec/functions.md says of src/contracts/tensors.ts.

import { tensorSet } from "../../../src/contracts/raw-values.ts";
import * as tensors from "../../../src/contracts/tensors.ts";
import * as words from "./common-words.ts";
import { documented, type FunctionFamily } from "./documented.ts";

const { PARAMETER, BLOCK, CLOCK, PUSH_NUMBER, SCALE } = words;
const blockWords = { parameter: PARAMETER, block: BLOCK, clock: CLOCK };
const pushWords = { ...blockWords, pushNumber: PUSH_NUMBER, scale: SCALE };
const NAMED = "rows of the block, counted from its first, each once; none: the whole block";
const READ = "rows of the block, counted from its first; one that is named twice is answered twice; none: the whole block";
const GRADIENTS = "one for each element of the block, in order, or the rows of gradients one after the other, in the order of";
const VALUES = "the values of the block, in order, or the rows one after the other, in the order of";
const block = { parameter: 1, block: 2, clock: 3 };
const push = { ...block, pushNumber: 5, scale: 1 };
const gradients = Float32Array.of(1, -2, 0.5, 4);
const values = Float32Array.of(-1, 2, -0.5, -4);

export const TENSORS: FunctionFamily = {
  title: "Blocks of a tensor",
  about:
    "A tensor is cut into blocks (protocol.md, B2 and B3), and each request is about one, or about some of its rows. A push of a whole tensor is one request for each block, all with one push number. Values of a tensor with a link travel as it carries them (codecs.md, §6).",
  functions: [
    documented(tensors.tensorPush, {
      about: "Applies gradients with the tensor's optimizer. Rows that are not named stay as they are.",
      request: { ...pushWords, rows: NAMED, gradients: `${GRADIENTS} \`rows\`` },
      response: {},
      errors: [...words.PUSH_ERRORS, ...words.CODED_ERRORS],
      example: { request: { ...push, rows: Uint32Array.of(4, 0), gradients }, response: {} },
    }),
    documented(tensors.tensorPull, {
      about: "Answers values as soon as the clocks allow it (consistency.md, W2).",
      request: { ...blockWords, rows: READ },
      response: { values: `${VALUES} \`rows\`` },
      errors: [...words.PULL_ERRORS, ...words.CODED_ERRORS],
      example: { request: { ...block, rows: new Uint32Array(0) }, response: { values } },
    }),
    documented(tensors.tensorPushPull, {
      about:
        "A push, and a pull right after it with nothing in between. Of a tensor with sync updates the values are those before the push: it counts when its round is complete.",
      request: { ...pushWords, pushRows: NAMED, gradients: `${GRADIENTS} \`pushRows\``, pullRows: READ },
      response: { values: `${VALUES} \`pullRows\`` },
      errors: [...words.PUSH_PULL_ERRORS, ...words.CODED_ERRORS],
      example: {
        request: { ...push, pushRows: Uint32Array.of(1), gradients: gradients.subarray(0, 2), pullRows: Uint32Array.of(0, 1) },
        response: { values },
      },
    }),
    documented(tensors.tensorStart, {
      about:
        "Gives the block the values that it begins with, in place of those of its initializer, as they are whatever the link. The first to come counts. Once values were given, or anybody has pushed to the block, nothing is changed.",
      request: { parameter: PARAMETER, block: BLOCK, values: "one for each element of the block, in order; finite" },
      response: { isTaken: "whether these are the values now" },
      errors: [...words.FIND_ERRORS, "OUT_OF_RANGE", "VALUE_LENGTH", "NOT_FINITE", "ARENA_FULL"],
      example: { request: { parameter: 1, block: 2, values: gradients }, response: { isTaken: true } },
    }),
    documented(tensorSet, {
      about:
        "Replaces the values of the block, for all workers, as they are whatever the link. What the optimizer keeps beside them stays, and counts no step. An open round of sync updates is applied to them.",
      request: { parameter: PARAMETER, block: BLOCK, values: "one for each element of the block, in order; finite" },
      response: {},
      errors: [...words.FIND_ERRORS, "OUT_OF_RANGE", "VALUE_LENGTH", "NOT_FINITE", "ARENA_FULL"],
      example: { request: { parameter: 1, block: 2, values: gradients }, response: {} },
    }),
  ],
};
