// tensor-shape — how workers and servers cut a dense tensor: rows of `width` floats, in blocks of consecutive rows.
//
//   shape [n]     n rows of one float      shape [r, c, …]  r rows of c × … floats     shape []  one row of one float
//   block         as many whole rows as fit BLOCK_BYTES. A longer row is cut, and the tensor has no rows: `hasRows` is
//                 false, and it can be pushed and pulled whole, not row by row.

import { badArgument } from "../base/errors.ts";
import { FLOAT_BYTES } from "../kernel/elements.ts";
import { BLOCK_BYTES } from "../wire/frame.ts";

const BLOCK_FLOATS = BLOCK_BYTES / FLOAT_BYTES;
const CODED_WIDTH = 128;
const CODED_WIDTH_MIN = 8;
/** Indexes of blocks are u32 on the wire. */
const BLOCKS_MAX = 2 ** 32;

export class TensorShape {
  readonly rowCount: number;
  readonly width: number;
  readonly floatCount: number;
  readonly hasRows: boolean;
  readonly blockCount: number;
  /** Floats of every block but the last. */
  readonly blockFloats: number;

  /**
   * Throws BAD_ARGUMENT for a dimension that is no integer of at least 1, and for more elements than can be counted.
   */
  constructor(shape: readonly number[]) {
    const [rowCount = 1, ...rest] = shape;
    const width = rest.reduce((product, size) => product * size, 1);
    if (!shape.every((size) => Number.isSafeInteger(size) && size >= 1) || !Number.isSafeInteger(rowCount * width)) {
      throw badArgument(`a shape is a list of whole numbers from 1 up, not [${shape.join(", ")}]`);
    }
    this.rowCount = rowCount;
    this.width = width;
    this.floatCount = rowCount * width;
    this.hasRows = width <= BLOCK_FLOATS;
    this.blockFloats = this.hasRows ? Math.floor(BLOCK_FLOATS / width) * width : BLOCK_FLOATS;
    this.blockCount = Math.ceil(this.floatCount / this.blockFloats);
    if (this.blockCount > BLOCKS_MAX) throw badArgument(`a tensor of ${this.floatCount} elements is too large`);
  }

  get rowsPerBlock(): number {
    return this.blockFloats / this.width;
  }

  /** The first element of a block among all. */
  firstFloat(block: number): number {
    return block * this.blockFloats;
  }

  floatsOf(block: number): number {
    return Math.min(this.blockFloats, this.floatCount - this.firstFloat(block));
  }

  /** The floats of these blocks together. */
  floatsOfAll(isMeant: (block: number) => boolean): number {
    let count = 0;
    for (let block = 0; block < this.blockCount; block++) if (isMeant(block)) count += this.floatsOf(block);
    return count;
  }

  /**
   * How many floats of a block share a scale as int8: those of a row; if rows are short or longer than a block, the
   * largest power of two up to 128 that divides the block, or all floats if that is below 8.
   */
  codedWidth(block: number): number {
    if (this.hasRows && this.width >= CODED_WIDTH_MIN) return this.width;
    const floatCount = this.floatsOf(block);
    const divisor = Math.min(CODED_WIDTH, floatCount & -floatCount);
    return divisor >= CODED_WIDTH_MIN ? divisor : floatCount;
  }

  /** The block that holds this row. */
  blockOfRow(row: number): number {
    return Math.floor(row / this.rowsPerBlock);
  }
}
