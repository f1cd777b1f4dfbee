package chaos

import "fmt"

// Seat is where on the way between client and target a link is hurt.
type Seat uint8

// The seats.
const (
	SeatClient Seat = iota // the link that the load generator itself holds
	SeatProxy              // a proxy's link to the target, on behalf of any client
)

var seats = [...]string{SeatClient: "client", SeatProxy: "proxy"}

// AllSeats returns every seat.
func AllSeats() []Seat { return []Seat{SeatClient, SeatProxy} }

// String returns the seat's name as it is written in profiles and results.
func (s Seat) String() string {
	if int(s) < len(seats) {
		return seats[s]
	}
	return fmt.Sprintf("seat(%d)", uint8(s))
}

// ParseSeat returns the seat of that name; the error lists what is allowed.
func ParseSeat(name string) (Seat, error) {
	for i, s := range seats {
		if s == name {
			return Seat(i), nil
		}
	}
	return SeatClient, unknown("seat", name, seats[:])
}
