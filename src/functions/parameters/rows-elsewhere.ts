// rows-elsewhere — tells a server of a push where pushes are counted: by lazyAdam as its steps, by a mean over workers as one of them. So neither depends
// on how many servers there are, or on which of them a row happens to lie. Of a push to a table those servers are told that have none of its rows; of
// a push by rows to a tensor of lazyAdam all are, before its rows come.

import { type PsFunction, psFunction } from "../ps-function.ts";

const request = { parameter: "u32", clock: "u32" } as const;
const response = {} as const;
export const rowsElsewhere: PsFunction<typeof request, typeof response> = psFunction({
  name: "wb/rows/elsewhere",
  request,
  response,
  handler: ({ parameters, life }, { parameter, clock }) => {
    parameters.get(parameter).noteElsewhere(life, clock);
    return {};
  },
});
