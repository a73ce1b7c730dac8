// Command gvisor times gVisor's queueing discipline fifo: one goroutine writes packets, another
// hands them to a link that counts them. It prints nanoseconds of the processor for a packet.
package main

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/link/qdisc/fifo"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

const (
	packets = 1 << 22
	places  = 1000
)

type link struct{ packets atomic.Uint64 }

func (l *link) WritePackets(list stack.PacketBufferList) (int, tcpip.Error) {
	l.packets.Add(uint64(list.Len()))
	return list.Len(), nil
}

// cpuNs returns the processor time of this process.
func cpuNs() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

func main() {
	out := &link{}
	queue := fifo.New(out, 1, places)
	pool := make([]*stack.PacketBuffer, 256)
	for i := range pool {
		data := buffer.MakeWithData(make([]byte, 64))
		pool[i] = stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: data})
		pool[i].Hash = uint32(i)
	}
	start := cpuNs()
	for i := 0; i < packets; {
		if err := queue.WritePacket(pool[i%len(pool)]); err != nil {
			runtime.Gosched()
			continue
		}
		i++
	}
	for out.packets.Load() < packets {
		runtime.Gosched()
	}
	fmt.Printf("ns %.3f\n", float64(cpuNs()-start)/packets)
}
