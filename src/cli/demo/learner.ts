// learner — a worker's part of the training: from a batch of impressions and the weights of the features in it to the changes it pushes.
// AdaGrad with the sums kept here: features that are seen often take smaller steps. The servers only add.

import { FEATURE_COUNT, FIELD_COUNT, type Impressions, sigmoid } from "./click-world.ts";

const LEARNING_RATE = 0.12;

/** The features of a batch, each once and ascending, and where in that list each occurrence lies. */
export type BatchFeatures = { readonly unique: Uint32Array; readonly places: Uint32Array };

export class Learner {
  readonly #squares = new Float32Array(FEATURE_COUNT);
  readonly #placeOf = new Uint32Array(FEATURE_COUNT);

  featuresOf({ features }: Impressions): BatchFeatures {
    const unique = new Uint32Array(new Set(features)).sort();
    unique.forEach((feature, place) => {
      this.#placeOf[feature] = place;
    });
    return { unique, places: features.map((feature) => this.#placeOf[feature] as number) };
  }

  /** Fills `changes` with what to add to `weights`, both in the order of `unique`. Returns the mean loss before. */
  learn({ count, clicks }: Impressions, { unique, places }: BatchFeatures, weights: Float32Array, changes: Float32Array): number {
    let loss = 0;
    changes.fill(0);
    for (let i = 0, from = 0; i < count; i++, from += FIELD_COUNT) {
      let score = 0;
      for (let at = from; at < from + FIELD_COUNT; at++) score += weights[places[at] as number] as number;
      const isClicked = clicks[i] === 1;
      const error = sigmoid(score) - (isClicked ? 1 : 0);
      loss -= Math.log(Math.max(sigmoid(isClicked ? score : -score), 1e-9));
      for (let at = from; at < from + FIELD_COUNT; at++) changes[places[at] as number]! += error;
    }
    for (let place = 0; place < unique.length; place++) {
      const feature = unique[place] as number;
      const gradient = changes[place] as number;
      this.#squares[feature]! += gradient * gradient;
      changes[place] = (-LEARNING_RATE * gradient) / Math.sqrt((this.#squares[feature] as number) + 1);
    }
    return loss / count;
  }
}
