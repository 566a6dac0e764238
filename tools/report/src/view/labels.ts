/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where texts of a chart go so that none lies on another: each is offered some places, takes the
 * first that is free, and is left out if none is. What comes first has the choice.
 */
export interface Place { left: number; top: number }

interface Box { left: number; top: number; right: number; bottom: number }

export class Labels {
    private readonly taken: Box[] = [];

    /** The first of the places where a text of this size lies on no other; null: none. */
    put(places: readonly Place[], width: number, height: number): Place | null {
        for (const { left, top } of places) {
            const box = { left, top, right: left + width, bottom: top + height };
            if (this.taken.every((other) => box.left >= other.right || box.right <= other.left ||
                                            box.top >= other.bottom || box.bottom <= other.top)) {
                this.taken.push(box);
                return { left, top };
            }
        }
        return null;
    }
}
