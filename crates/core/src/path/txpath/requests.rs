//! Requests of an emulated link to the owner of the frames: to copy a frame, or to flip a bit of
//! one.

use crate::base::bound::Bound;
use crate::packet::reason::DropReason;
use crate::packet::route::DEPTH_MAX;
use crate::path::device::TxQueue;
use crate::path::txpath::Held;
use crate::sched::cx::Arrival;
use crate::sched::effects::{REQUESTS_MAX, Request};
use crate::sched::trace::Event;

impl<F> Held<F> {
    /// Carries out the requests of qdiscs to the owner of the frames.
    #[cold]
    pub(super) fn serve_requests<D>(&mut self, dev: &mut D)
    where
        D: TxQueue<Frame = F>,
    {
        // A copy requests no other copy, and at most a flip by each qdisc on its way.
        let mut bound = Bound::of(REQUESTS_MAX * (DEPTH_MAX + 1));
        while let Some(request) = self.cx.effects.take_request() {
            bound.turn();
            match request {
                Request::Copy(original) => self.copy_in(original, dev),
                Request::Flip(index, bit) => {
                    if let Some(frame) = self.frames.get_mut(index).and_then(Option::as_mut) {
                        dev.corrupt(frame, bit);
                    }
                }
            }
        }
    }

    /// Queues the requested copy of the packet in slot `original`, which has just been queued.
    fn copy_in<D>(&mut self, original: usize, dev: &mut D)
    where
        D: TxQueue<Frame = F>,
    {
        let Some(frame) = self.frames.get(original).and_then(Option::as_ref) else { return };
        let Some(copy) = dev.copy(frame) else {
            self.stats.uncopied += 1;
            return;
        };
        let m = self.cx.pool.as_it_came(original);
        let Some(p) = self.cx.pool.alloc(m, self.cx.now) else {
            let _ = self.refuse(copy, &m, DropReason::PoolFull, dev);
            return;
        };
        self.cx.pool.copy_detail(original, &p);
        self.frames[p.index()] = Some(copy);
        self.stats.copies += 1;
        self.record(Event::Enqueued, &m);
        self.cx.arrival = Arrival::Copy;
        self.tree.root_mut().enqueue(p, &mut self.cx);
        self.cx.arrival = Arrival::New;
    }
}
