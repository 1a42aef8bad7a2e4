/* conformance_ends.h - the part of the suite about cancelling, closing and failures. */
#ifndef NXT_CONFORMANCE_ENDS_H
#define NXT_CONFORMANCE_ENDS_H

/* Tests for cmocka; |*state| is the harness. */
void nxt_test_cancelled_parts_are_told_of_and_leave_the_others_alone(void **state);
void nxt_test_close_with_drain_delivers_everything(void **state);
void nxt_test_close_without_drain_gives_every_part_back(void **state);
void nxt_test_a_dismissed_end_gets_the_last_frame_whatever_was_queued(void **state);
void nxt_test_both_ends_can_close_at_once(void **state);
void nxt_test_a_link_can_be_closed_before_it_is_up(void **state);
void nxt_test_a_link_can_be_closed_inside_a_call_up(void **state);
void nxt_test_a_peer_that_dies_is_noticed_once(void **state);
void nxt_test_a_link_that_is_down_refuses_and_says_why(void **state);
void nxt_test_a_failed_allocation_is_told_or_ends_the_link(void **state);

#endif /* NXT_CONFORMANCE_ENDS_H */
