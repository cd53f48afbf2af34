// int8-codec — rows of values as one byte each and a scale per row; centred: with the row's middle too, for rows that
// lie to one side of 0. The error of a value is at most scale × (1/2 + 2^-15) + 2^-23 × |zero|, where scale is the
// row's largest distance from zero / 127. Refuses rows with NaN, infinity or magnitudes above 2^126. See also
// ValueCodec.V1 to V3.

import { badArgument } from "../../base/errors.ts";
import type { CodecKernels } from "../../kernel/codec-kernels.ts";
import { FLOAT_BYTES } from "../../kernel/elements.ts";
import {
  type CodecContext,
  checkByteCount,
  type DecodeJob,
  type EncodeJob,
  floatCountOf,
  malformed,
  type ValueCodec,
  ValueCodecId,
  type ValueShape,
} from "./value-codec.ts";

export class Int8Codec implements ValueCodec {
  readonly id: number;
  readonly hasResidual = false;
  readonly #codecKernels: CodecKernels;
  readonly #centred: 0 | 1;

  constructor({ codecKernels }: CodecContext, isCentred: boolean) {
    this.id = isCentred ? ValueCodecId.INT8_CENTRED : ValueCodecId.INT8;
    this.#codecKernels = codecKernels;
    this.#centred = isCentred ? 1 : 0;
  }

  encodeBound(shape: ValueShape): number {
    return floatCountOf(shape) + shape.rowCount * FLOAT_BYTES * (1 + this.#centred);
  }

  encode(job: EncodeJob): number {
    const byteCount = this.encodeBound(job);
    const wrong = this.#codecKernels.encodeInt8Rows(job.source, job.rowCount, job.width, this.#centred, job.target);
    if (wrong >= 0) {
      throw badArgument(`row ${wrong} of ${job.rowCount} has a value that int8 cannot carry: NaN, or above 2^126`);
    }
    return byteCount;
  }

  decode(job: DecodeJob): void {
    checkByteCount("int8", job.byteCount, this.encodeBound(job));
    const wrong = this.#codecKernels.decodeInt8Rows(job.source, job.rowCount, job.width, this.#centred, job.target);
    if (wrong >= 0) throw malformed(`int8 row ${wrong} of ${job.rowCount} has an impossible scale, zero or byte`);
  }

  close(): void {}
}
