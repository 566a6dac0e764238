/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where texts of a chart go so that none lies on another: each is offered some places, takes the
 * first that is free, and is left out if none is. What comes first has the choice.
 */
import { resolveCss } from '../ui/colours.js';

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

    /** A text on a patch of the page's colour, so that it can be read on any line. */
    write(ctx: CanvasRenderingContext2D, text: string, places: readonly Place[],
          colour: string): void {
        const ratio = devicePixelRatio;
        const width = ctx.measureText(text).width + 6 * ratio;
        const place = this.put(places, width, 15 * ratio);
        if (place) {
            ctx.fillStyle = resolveCss('--card');
            ctx.globalAlpha = 0.9;
            ctx.fillRect(place.left, place.top, width, 15 * ratio);
            ctx.globalAlpha = 1;
            ctx.fillStyle = colour;
            ctx.fillText(text, place.left + 3 * ratio, place.top + 11 * ratio);
        }
    }
}
