// fill-state — what a standby gets that was not there from the start (docs/decisions/0068): what is the server's and
// not a part's, the state of parts, and the answers that its head keeps. Not when they are sent (fill.ts).
//
//   FILL     saveServer    the vector clock; clocks of workers, counts of pushes; the catalogue, and of each parameter
//                          its rate, its phases and its counts; key lists; requests that have not come whole; who lives
//   PARTS    saveParts     rows, blocks, sums, what workers pulled, and open rounds: PartState, and the sums of kv
//                          and what users' functions keep of their own
//   FILLED   saveAnswers   answers that cannot be made again, by the stamps of their updates; and what users' functions
//                          keep, since what they did meanwhile may depend on parts that were missing
//
// Invariants:
//   FillState.F1. Parts that are loaded replace what the standby made of them: it repeats every entry from FILL on, and
//       so has at most rows, blocks and contributions that its head has too (PartState.P1).

import type { VectorClock } from "../../consistency/vector-clock.ts";
import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";
import type { Arena } from "../../kernel/arena.ts";
import { Answer, type AnswerOptions } from "../../peer/answer.ts";
import type { Channel } from "../../peer/channel.ts";
import type { RequestAssembly, Unfinished } from "../../peer/request-assembly.ts";
import type { SumImages, SumOwner } from "../../store/sums/sum-requests.ts";
import type { CatalogueEntry } from "../../wire/catalogue.ts";
import type { RequestLabel } from "../../wire/frame.ts";
import type { PlacementView } from "../../wire/roster.ts";
import type { Ownership } from "../ownership.ts";
import type { ParameterImage } from "../parameters/hosted-parameter.ts";
import type { KeyListsImage } from "../parameters/parameter-link.ts";
import type { Parameters } from "../parameters/parameters.ts";
import { bytesOfPage, type PartPage, PartState } from "../parameters/part-state.ts";
import type { OwnState, OwnStateImage } from "./repeated-function.ts";

/** The server that is saved, or filled. */
export type FilledServer = {
  readonly arena: Arena;
  readonly parameters: Parameters;
  readonly clock: VectorClock;
  readonly ownership: Pick<Ownership, "hasAppCut" | "noteAppCut" | "placement" | "isSettling">;
  readonly functions: { readonly assembly: Pick<RequestAssembly, "unfinished"> };
  readonly ownState: OwnState;
};

/** What came of a request of several frames. */
type UnfinishedImage = WorkerIncarnation & { readonly name: string; readonly totalBytes: number; readonly arrived: Uint8Array };

export type ServerImage = {
  readonly stamps: readonly (WorkerIncarnation & { readonly stamp: number })[];
  readonly pacer: ReturnType<Parameters["pacer"]["save"]>;
  readonly catalogue: readonly CatalogueEntry[];
  readonly parameters: readonly ParameterImage[];
  readonly sums: readonly (readonly [owner: SumOwner, type: number])[];
  readonly keyLists: readonly KeyListsImage[];
  readonly unfinished: readonly UnfinishedImage[];
  readonly hasAppCut: boolean;
  /** No part of it comes or goes. */
  readonly placement?: PlacementView | undefined;
  readonly own: OwnStateImage;
};

/** Copies nothing that a later turn could change, but what is packed in this one. */
export function saveServer({ parameters, clock, ownership, functions, ownState }: FilledServer): ServerImage {
  return {
    stamps: [...clock.entries()].map(([worker, { incarnation, stamp }]) => ({ worker, incarnation, stamp })),
    pacer: parameters.pacer.save(),
    catalogue: [...parameters.entries()],
    parameters: parameters.all.map((parameter) => parameter.save()),
    sums: [...parameters.sums.all].map(([owner, { type }]) => [owner, type]),
    keyLists: parameters.host.keyLists.save(),
    unfinished: [...functions.assembly.unfinished.workers].flatMap(([worker, { incarnation, entries }]) =>
      [...entries].map(
        ([
          name,
          {
            request: { room, totalBytes, arrivedBytes },
          },
        ]) => {
          const arrived = room.bytes.subarray(room.at, room.at + arrivedBytes);
          return { worker, incarnation, name: String(name), totalBytes, arrived };
        },
      ),
    ),
    hasAppCut: ownership.hasAppCut,
    ...(ownership.placement === undefined ? {} : { placement: ownership.placement }),
    own: ownState.save(),
  };
}

/** Of a server to which nothing has happened. `channelOf` stands for a worker. Throws ARENA_FULL. */
export function loadServer(server: FilledServer, image: ServerImage, channelOf: (holder: WorkerIncarnation) => Channel): void {
  const { parameters, clock, ownership, functions, arena } = server;
  for (const { worker, incarnation, stamp } of image.stamps) clock.restore(worker, { incarnation, stamp });
  parameters.pacer.load(image.pacer);
  parameters.adopt(image.catalogue);
  for (const saved of image.parameters) parameters.get(saved.number).load(saved);
  for (const [owner, type] of image.sums) parameters.sums.of(owner).use(type);
  parameters.host.keyLists.load(image.keyLists);
  for (const { name, totalBytes, arrived, ...holder } of image.unfinished) {
    const at = arena.allocate(totalBytes);
    arena.bytes.set(arrived, at);
    const room = { bytes: arena.bytes, at, release: () => arena.release(at, totalBytes) };
    const request: Unfinished = { room, totalBytes, arrivedBytes: arrived.length };
    const frame = { isFirst: true, isLast: false, begin: () => request, add: () => {}, byteCountOf: () => totalBytes };
    functions.assembly.unfinished.take(channelOf(holder), name, frame);
  }
  if (image.hasAppCut) ownership.noteAppCut();
  server.ownState.load(image.own);
}

/** The state of parts from `from` on, before `to`. */
export type PartsImage = {
  readonly from: number;
  readonly to: number;
  readonly pages: readonly PartPage[];
  readonly sums: readonly (readonly [owner: SumOwner, images: SumImages])[];
};

/** The next parts from this one on: so many, or as many as have so many bytes. Throws ARENA_FULL, HANDLER_FAILED. */
export function saveParts(
  parameters: Parameters,
  from: number,
  { partsMax, bytesMax }: { readonly partsMax: number; readonly bytesMax: number },
): PartsImage {
  const state = new PartState(parameters);
  const pages: PartPage[] = [];
  const sums: [SumOwner, SumImages][] = [];
  let [part, byteCount] = [from, 0];
  const marks = state.marks();
  for (; part < from + partsMax && byteCount < bytesMax; part++) {
    if (marks[part] === 0) continue;
    for (const page of state.savePart(part)) {
      pages.push(page);
      byteCount += bytesOfPage(page);
    }
    for (const [owner, store] of parameters.sums.all) {
      if (owner === "data") continue; // PartState has it
      for (const images of store.savePart(part)) {
        sums.push([owner, images]);
        byteCount += images.payloads.length;
      }
    }
  }
  return { from, to: part, pages, sums };
}

/** FillState.F1. Throws ARENA_FULL. */
export function loadParts(parameters: Parameters, { pages, sums }: PartsImage): void {
  new PartState(parameters).loadPart(pages);
  parameters.host.noteGrowth();
  for (const [owner, images] of sums) parameters.sums.of(owner).put(images);
}

/** An answer that is kept: the number of its request on the head's channel, and its frames. */
type KeptAnswerImage = {
  readonly stamp: number;
  readonly request: number;
  readonly label: RequestLabel;
  readonly frames: readonly Omit<AnswerOptions, "held">[];
};
/** What FILLED carries. */
export type FilledImage = { readonly answers: AnswersImage; readonly own: OwnStateImage };
export type AnswersImage = readonly (WorkerIncarnation & { readonly kept: readonly KeptAnswerImage[] })[];

/** Of the workers behind these channels. */
export function saveAnswers(channels: Iterable<Channel>): AnswersImage {
  return [...channels].map(({ id: worker, incarnation, received }) => {
    const kept = [...received.answers].flatMap(([request, answers]) => keptImage(request, answers));
    return { worker, incarnation, kept };
  });
}

/** None for an answer to a read: its worker asks again. */
export function keptImage(request: number, answers: readonly Answer[]): readonly KeptAnswerImage[] {
  const label = answers[0]?.label;
  if (label?.stamp === undefined || label.stamp === 0) return [];
  return [{ stamp: label.stamp, request, label, frames: answers.map(({ options }) => options) }];
}

export function answersOf({ label, frames }: KeptAnswerImage): readonly Answer[] {
  return frames.map((options) => new Answer(label, options));
}
