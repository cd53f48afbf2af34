// row-marks — which rows of a block are named, and the runs that they make.

/** By row of a block: 1 where it is named, 0 otherwise. */
export type RowMarks = Uint8Array;

/** The runs of rows with this mark. */
export function* runsOf(marks: RowMarks, mark: 0 | 1): Iterable<{ readonly from: number; readonly to: number }> {
  for (let from = marks.indexOf(mark); from >= 0; ) {
    const end = marks.indexOf(mark === 1 ? 0 : 1, from);
    const to = end < 0 ? marks.length : end;
    yield { from, to };
    from = marks.indexOf(mark, to);
  }
}
